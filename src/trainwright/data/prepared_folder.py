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

from trainwright.on_disk import sync_folder

_TEMPORARY = ".tmp-"


@contextmanager
def building(final: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A temporary folder, and the function that commits it as ``final``. Not committed: removed."""
    final.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(final.parent)
    temporary, lock = _locked_folder(final)
    try:
        yield temporary, lambda: _commit(temporary, final)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def remove_abandoned(parent: Path) -> None:
    """Remove temporary folders whose process on this host is gone."""
    mark = f"{_TEMPORARY}{socket.gethostname()}-"
    for folder in parent.iterdir():
        if mark in folder.name:
            _remove_if_abandoned(folder)


def discard(folder: Path) -> None:
    """Remove a folder that is damaged. Readers that have it mapped keep what they mapped."""
    aside = folder.with_name(f"{folder.name}{_TEMPORARY}{socket.gethostname()}-{secrets.token_hex(6)}")
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)


def _locked_folder(final: Path) -> tuple[Path, int]:
    """A new folder, locked for as long as this process lives; the lock is on the folder itself."""
    while True:
        folder = final.parent / f"{final.name}{_TEMPORARY}{socket.gethostname()}-{secrets.token_hex(6)}"
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # taken for abandoned before it could be locked
        with suppress(OSError):  # not every shared file system has locks; then nothing is ever thought abandoned
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)


def _remove_if_abandoned(folder: Path) -> None:
    """Whoever holds the lock while removing cannot remove the folder of a process that is just taking it."""
    with suppress(OSError):  # being removed at this moment, or in use, or no locks here
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _commit(temporary: Path, final: Path) -> None:
    sync_folder(temporary)
    try:
        os.rename(temporary, final)
    except OSError:
        if not final.is_dir():
            raise
        return  # another process was first, with the same content
    sync_folder(final.parent)
