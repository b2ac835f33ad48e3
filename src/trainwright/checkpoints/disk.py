"""The few calls that change a disk, behind one seam, and a stream that hashes what it writes.

Every byte and every name of a checkpoint passes through a ``Disk``; tests put one in its place that dies, fails or
flips a bit at the k-th call. Standard library only.
"""

from __future__ import annotations

import hashlib
import io
import os
import queue
import shutil
import threading
from pathlib import Path
from typing import Any

from trainwright.checkpoints.format import FileRecord
from trainwright.on_disk import sync_folder

_CHUNK = 1 << 20
_BACKLOG = 32  # chunks that writing may be ahead of hashing
_WRITEBACK = 16  # chunks after which the disk is told to begin, so that the final sync has little left to wait for


class Disk:
    """Calls that change a disk. All raise OSError."""

    def create(self, path: Path) -> int:
        """Make a new file and give its descriptor; an existing one is an error, since nothing is ever overwritten."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the bytes; gives how many."""
        return os.write(descriptor, data)

    def start_writeback(self, descriptor: int, start: int, size: int) -> None:
        """Let the disk begin with some bytes while others are still being made; promises nothing.

        On Linux this advice starts the transfer and drops only pages that are already clean.
        """
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, start, size, os.POSIX_FADV_DONTNEED)

    def sync(self, descriptor: int) -> None:
        """Return when the file's bytes would survive a power cut."""
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Return when the names in a folder would survive a power cut."""
        sync_folder(folder)

    def rename(self, source: Path, target: Path) -> None:
        """Move a file or folder within its file system, atomically."""
        os.rename(source, target)

    def make_folder(self, folder: Path) -> None:
        """Make a folder that is not there yet."""
        os.mkdir(folder)

    def remove_tree(self, folder: Path) -> None:
        """Delete a folder and all that is in it."""
        shutil.rmtree(folder)


class HashingStream(io.RawIOBase):
    """A new file that knows the sha256 of what was written to it, without reading anything back.

    Data is gathered into chunks; each is hashed by a thread of its own while this one writes it. Both take the bytes
    from memory: were the disk to change them, the hash would not follow. ``flush`` does nothing and is called after
    every tensor; ``close`` writes the rest and syncs the file.
    """

    def __init__(self, disk: Disk, path: Path):
        super().__init__()
        self._disk, self._path = disk, path
        self._descriptor = disk.create(path)
        self._digest, self._position, self._used = hashlib.sha256(), 0, 0
        self._handed = self._begun = 0
        self.refusal: OSError | None = None
        """Why the disk took no more. torch's writer of archives hides it behind an assertion of its own."""
        self._full: queue.Queue[tuple[bytearray, int] | None] = queue.Queue()
        self._free: queue.Queue[bytearray] = queue.Queue()
        self._made = 1
        self._chunk = bytearray(_CHUNK)
        self._hasher = threading.Thread(target=self._hash, name=f"hash {path.name}", daemon=True)
        self._hasher.start()

    def writable(self) -> bool:
        """Always."""
        return True

    def fileno(self) -> int:
        """The file's descriptor."""
        return self._descriptor

    def tell(self) -> int:
        """Bytes taken so far, written or not."""
        return self._position

    def flush(self) -> None:
        """Nothing: nobody reads the file before it is closed."""

    def write(self, data: Any) -> int:  # Any: the buffer protocol has no type before Python 3.12
        """Take all of the data; OSError when the disk refuses it."""
        view = memoryview(data).cast("B")
        taken = 0
        while taken < len(view):
            size = min(len(view) - taken, _CHUNK - self._used)
            self._chunk[self._used : self._used + size] = view[taken : taken + size]
            self._used += size
            taken += size
            if self._used == _CHUNK:
                self._hand_over()
        self._position += taken
        return taken

    def close(self) -> None:
        """Write what is left, sync, and finish the hash. OSError when the disk refuses; it closes all the same."""
        if self.closed:
            return
        try:
            if self._used:
                self._hand_over()
            self._disk.sync(self._descriptor)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close without promising anything about what was written."""
        if self.closed:
            return
        self._full.put(None)
        self._hasher.join()
        os.close(self._descriptor)
        super().close()

    def record(self) -> FileRecord:
        """Name, size and sha256 of the closed file."""
        if not self.closed:
            raise ValueError(f"{self._path.name} is still open")
        return FileRecord(self._path.name, self._position, self._digest.hexdigest())

    def _hand_over(self) -> None:
        chunk, used = self._chunk, self._used
        self._full.put((chunk, used))
        view, written = memoryview(chunk)[:used], 0
        try:
            while written < used:
                written += self._disk.write(self._descriptor, view[written:])
        except OSError as error:
            self.refusal = error
            raise
        self._handed += used
        if self._handed - self._begun >= _WRITEBACK * _CHUNK:
            self._disk.start_writeback(self._descriptor, self._begun, self._handed - self._begun)
            self._begun = self._handed
        self._chunk, self._used = self._next_chunk(), 0

    def _next_chunk(self) -> bytearray:
        """A chunk whose bytes are both written and hashed; waits for the hasher when it is too far behind."""
        try:
            return self._free.get_nowait()
        except queue.Empty:
            if self._made < _BACKLOG:
                self._made += 1
                return bytearray(_CHUNK)
            return self._free.get()

    def _hash(self) -> None:
        while item := self._full.get():
            chunk, used = item
            self._digest.update(memoryview(chunk)[:used])
            self._free.put(chunk)


def write_file(disk: Disk, path: Path, data: bytes) -> FileRecord:
    """Write and sync one small file."""
    stream = HashingStream(disk, path)
    try:
        stream.write(data)
        stream.close()
    finally:
        stream.abandon()
    return stream.record()
