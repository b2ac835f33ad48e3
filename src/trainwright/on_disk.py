"""Files as they are on the disk: the hash of one, and the moment when a folder's names would survive a power cut.

Takes paths; standard library only. Must not know what the files are for.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

_CHUNK = 1 << 20  # fits a core's cache, so that hashing reads memory once


def sha256_of(path: Path, done: Callable[[int], None] | None = None) -> str:
    """Sha256 of a file's content in hex; ``done`` hears of every chunk's size. Hashing releases the GIL."""
    digest, buffer = hashlib.sha256(), bytearray(_CHUNK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as handle:
        while size := handle.readinto(buffer):
            digest.update(view[:size])
            if done:
                done(size)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Return when the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
