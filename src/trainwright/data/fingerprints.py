"""Hashes of source files, remembered by what ``stat`` says, so that unchanged files are not read again.

Takes file lists; gives SHA-256 values. A hash is only remembered when the file was last changed well before it
was read: within the clock's resolution a second change would leave no trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from trainwright.data.manifest import file_sha256
from trainwright.data.sources import FoundSource, SourceFile
from trainwright.errors import InputError, Problem
from trainwright.runs.folder import read_json, write_atomically

_SETTLED_NS = 2_000_000_000
Stamp = tuple[int, int, int, int]


def stamp(path: Path) -> Stamp:
    """What changes when a file changes: size, modification and status times in ns, inode."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def hash_source(
    found: FoundSource, memory: Path, workers: int, on_bytes: Callable[[int], None]
) -> dict[str, tuple[Stamp, str]]:
    """Stamp and SHA-256 of each file by name. ``memory`` is a folder for what is remembered."""
    memory.mkdir(parents=True, exist_ok=True)
    place = json.dumps([str(file.path) for file in found.files[:1]] + [found.where, found.source.path])
    record = memory / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"
    known = read_json(record) or {}
    started = time.time_ns()
    stamps = {file.name: _stamp(file, found) for file in found.files}
    unknown = [file for file in found.files if known.get(file.name, [None])[:-1] != list(stamps[file.name])]

    def digest(file: SourceFile) -> str:
        with _readable(file, found):
            value = file_sha256(file.path)
        on_bytes(file.size)
        return value

    with ThreadPoolExecutor(max(workers, 1)) as pool:
        digests = dict(zip((file.name for file in unknown), pool.map(digest, unknown), strict=True))
    hashes = {name: (status, digests.get(name) or known[name][-1]) for name, status in stamps.items()}
    settled = {
        name: [*status, digest]
        for name, (status, digest) in hashes.items()
        if max(status[1], status[2]) < started - _SETTLED_NS
    }
    if settled != known:
        write_atomically(record, json.dumps(settled))
    return hashes


def _stamp(file: SourceFile, found: FoundSource) -> Stamp:
    with _readable(file, found):
        return stamp(file.path)


@contextmanager
def _readable(file: SourceFile, found: FoundSource) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = Problem(str(file.path), field=found.where, what=f"cannot be read: {error.strerror}")
        raise InputError([problem]) from None


def combined(hashes: dict[str, tuple[Stamp, str]]) -> str:
    """One hash over the names and contents of a source."""
    whole = hashlib.sha256()
    for name, (_, digest) in hashes.items():
        whole.update(f"{name}\0{digest}\n".encode())
    return whole.hexdigest()


def changed(found: FoundSource, hashes: dict[str, tuple[Stamp, str]]) -> list[str]:
    """Files that are no longer what was hashed."""
    return [str(file.path) for file in found.files if _stamp_or_none(file.path) != hashes[file.name][0]]


def _stamp_or_none(path: Path) -> Stamp | None:
    try:
        return stamp(path)
    except OSError:
        return None
