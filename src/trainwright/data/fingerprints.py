"""Hashes of source files, remembered by what ``stat`` says, so that unchanged files are not read again.

Takes file lists; gives SHA-256 values. A hash is only remembered when the file was last changed well before it
was read: within the clock's resolution a second change would leave no trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trainwright.data.sources import FoundSource, SourceFile
from trainwright.errors import InputError, Problem
from trainwright.on_disk import sha256_of
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
    """Stamp and SHA-256 of each file of a source by name."""
    return hash_files(found.files, _place(found), found.where, memory, workers, on_bytes)


def all_remembered(found: FoundSource, memory: Path) -> bool:
    """True when no file of a source would have to be read to know its hash."""
    known = read_json(_record(_place(found), memory)) or {}
    return not _unknown(found.files, {file.name: _stamp(file, found.where) for file in found.files}, known)


def hash_files(
    files: Sequence[SourceFile], place: str, where: str, memory: Path, workers: int, on_bytes: Callable[[int], None]
) -> dict[str, tuple[Stamp, str]]:
    """Stamp and SHA-256 of each file by name. ``memory`` is a folder for what is remembered, under ``place``.

    Raises InputError about the field ``where`` for a file that cannot be read.
    """
    memory.mkdir(parents=True, exist_ok=True)
    record = _record(place, memory)
    known = read_json(record) or {}
    started = time.time_ns()
    stamps = {file.name: _stamp(file, where) for file in files}
    unknown = _unknown(files, stamps, known)

    def digest(file: SourceFile) -> str:
        with _readable(file, where):
            value = sha256_of(file.path)
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


def _place(found: FoundSource) -> str:
    return json.dumps([str(file.path) for file in found.files[:1]] + [found.where, found.source.path])


def _record(place: str, memory: Path) -> Path:
    return memory / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"


def _unknown(files: Sequence[SourceFile], stamps: dict[str, Stamp], known: dict[str, Any]) -> list[SourceFile]:
    return [file for file in files if known.get(file.name, [None])[:-1] != list(stamps[file.name])]


def _stamp(file: SourceFile, where: str) -> Stamp:
    with _readable(file, where):
        return stamp(file.path)


@contextmanager
def _readable(file: SourceFile, where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = Problem(str(file.path), field=where, what=f"cannot be read: {error.strerror}")
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
