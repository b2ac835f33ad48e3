"""Reads checkpoints back and compares every byte with the manifest, in parallel threads.

Takes a folder and file records, gives a list of Damage, empty when all is well; changes nothing, needs no torch.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from trainwright.checkpoints.format import Checkpoint, Damage, FileRecord
from trainwright.on_disk import sha256_of

#: Called with (bytes verified so far, bytes in all), from any thread, one call at a time.
Progress = Callable[[int, int], None]

_THREADS = 8


def verify(checkpoint: Checkpoint, *, threads: int | None = None, progress: Progress | None = None) -> list[Damage]:
    """Everything wrong with a checkpoint's files, in order of path: missing, cut, longer, changed or unreadable."""
    return verify_files(checkpoint.folder, checkpoint.manifest.files, threads=threads, progress=progress)


def verify_files(
    folder: Path, records: Iterable[FileRecord], *, threads: int | None = None, progress: Progress | None = None
) -> list[Damage]:
    """Like ``verify`` for some of the files. Hashing releases the GIL, so threads run truly in parallel."""
    rows = sorted(records, key=lambda record: -record.bytes)
    count = _Counter(sum(record.bytes for record in rows), progress)
    workers = max(1, min(threads or min(_THREADS, os.cpu_count() or 1), len(rows) or 1))
    with ThreadPoolExecutor(workers, thread_name_prefix="verify") as pool:
        found = list(pool.map(lambda record: _damage(folder, record, count), rows))
    return sorted((damage for damage in found if damage), key=lambda damage: damage.path)


def glance(checkpoint: Checkpoint) -> list[Damage]:
    """What can be seen without reading data: files that are missing or have another size."""
    found = (_wrong_size(checkpoint.folder, record) for record in checkpoint.manifest.files)
    return [damage for damage in found if damage]


class _Counter:
    """Bytes verified by all threads together."""

    def __init__(self, total: int, progress: Progress | None):
        self._total, self._done, self._progress, self._lock = total, 0, progress, threading.Lock()

    def add(self, count: int) -> None:
        if self._progress:
            with self._lock:
                self._done += count
                self._progress(self._done, self._total)


def _wrong_size(folder: Path, record: FileRecord) -> Damage | None:
    try:
        status = os.lstat(folder / record.path)
    except FileNotFoundError:
        return Damage(record.path, "is missing")
    except OSError as error:
        return Damage(record.path, f"cannot be read ({error.strerror})")
    if not stat.S_ISREG(status.st_mode):
        return Damage(record.path, "is not a plain file")
    if status.st_size != record.bytes:
        kind = "is cut short" if status.st_size < record.bytes else "is too long"
        return Damage(record.path, f"{kind}: {status.st_size} bytes of {record.bytes}")
    return None


def _damage(folder: Path, record: FileRecord, count: _Counter) -> Damage | None:
    wrong = _wrong_size(folder, record)
    if wrong:
        return wrong
    try:
        found = sha256_of(folder / record.path, count.add)
    except OSError as error:
        return Damage(record.path, f"cannot be read ({error.strerror})")
    if found != record.sha256:
        return Damage(record.path, f"was changed: sha256 {found[:12]}… instead of {record.sha256[:12]}…")
    return None
