"""Put a finished folder in the place of an older one: readers see one or the other, a crash leaves one of them.

Takes a path and a function that fills a folder; what killed ones left beside it is put back or cleared first. Knows
nothing of what is in the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from trainwright.checkpoints.disk import Disk

T = TypeVar("T")
_NEW, _OLD = ".new", ".old"


def replace_folder(target: Path, fill: Callable[[Path], T], disk: Disk | None = None) -> T:
    """Fill a folder beside ``target`` and give it that name; gives what ``fill`` gave.

    What stands there is set aside for the moment between two renames, and deleted once the new folder is on the disk.
    """
    disk = disk or Disk()
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target)
    stem = f".{target.name}.{uuid.uuid4().hex[:8]}"
    temporary, aside = target.parent / f"{stem}{_NEW}", target.parent / f"{stem}{_OLD}"
    disk.make_folder(temporary)
    with _locked(temporary):
        try:
            answer = fill(temporary)
            _sync(temporary, disk)
            if target.exists():
                disk.rename(target, aside)
            disk.rename(temporary, target)
        except BaseException:
            if aside.exists() and not target.exists():
                disk.rename(aside, target)
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        disk.sync_folder(target.parent)
        shutil.rmtree(aside, ignore_errors=True)
    return answer


def sweep(target: Path) -> None:
    """Clear what killed replacements of ``target`` left; an older folder that was only set aside is put back."""
    for path in sorted(target.parent.glob(f".{target.name}.*{_OLD}")):
        if _in_use(path.with_suffix(_NEW)):
            continue
        if not target.exists():
            path.rename(target)
        shutil.rmtree(path, ignore_errors=True)
    for path in target.parent.glob(f".{target.name}.*{_NEW}"):
        if not _in_use(path):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder for as long as this process lives. Where there are no locks, go on without."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _in_use(folder: Path) -> bool:
    """True while the process that fills a folder lives."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _sync(folder: Path, disk: Disk) -> None:
    """Everything in a folder, and its names, onto the disk."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                disk.sync(descriptor)
            finally:
                os.close(descriptor)
    for path in (folder, *(inner for inner in folder.rglob("*") if inner.is_dir())):
        disk.sync_folder(path)
