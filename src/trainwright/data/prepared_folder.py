"""A content-addressed folder that appears whole or not at all.

Files are written into a temporary folder beside it, which is renamed when everything is on the disk. Two processes
may build the same folder at once: one rename wins, the other's work is thrown away. What a killed process left
behind is removed by a later one on the same host, once the lock that the dead one held is free.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LOCK = ".lock"
_TEMPORARY = ".tmp-"


@contextmanager
def building(final: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A temporary folder, and the function that commits it as ``final``. Not committed: removed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(final.parent)
    temporary = final.parent / f"{final.name}{_TEMPORARY}{socket.gethostname()}-{secrets.token_hex(6)}"
    temporary.mkdir()
    lock = os.open(temporary / _LOCK, os.O_CREAT | os.O_RDWR, 0o644)
    try:
        with suppress(OSError):  # not every shared file system has locks; then nothing is ever thought abandoned
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield temporary, lambda: _commit(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove temporary folders whose process on this host is gone."""
    mark = f"{_TEMPORARY}{socket.gethostname()}-"
    for folder in parent.iterdir():
        if mark in folder.name and _is_abandoned(folder):
            shutil.rmtree(folder, ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a folder that is damaged. Readers that have it mapped keep what they mapped."""
    aside = folder.with_name(f"{folder.name}{_TEMPORARY}{socket.gethostname()}-{secrets.token_hex(6)}")
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        return False  # being made or being removed at this moment
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _commit(temporary: Path, final: Path) -> None:
    (temporary / _LOCK).unlink()
    _fsync(temporary)
    try:
        os.rename(temporary, final)
    except OSError:
        if not final.is_dir():
            raise
        return  # another process was first, with the same content
    _fsync(final.parent)


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
