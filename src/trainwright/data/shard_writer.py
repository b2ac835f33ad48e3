"""Sequences → the shard files of a prepared folder, hashed while they are written.

Takes packed sequences of one source and split; gives Shard and FileRecord values. It does not decide what is trusted:
the folder it writes to has no manifest yet.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from pathlib import Path
from typing import BinaryIO

import numpy as np

from trainwright.data.manifest import FileRecord, Shard, Split
from trainwright.data.pack import Packed

SHARD_TOKENS = 1 << 27
_BUFFER = 1 << 20


class HashedFile:
    """A new file whose hash and size are known when it is closed; closed means on the disk."""

    def __init__(self, path: Path):
        self._path = path
        self._handle: BinaryIO = path.open("xb", buffering=_BUFFER)
        self._hash = hashlib.sha256()
        self._bytes = 0

    def write(self, data: bytes) -> None:
        """Append."""
        self._hash.update(data)
        self._bytes += self._handle.write(data)

    def close(self) -> FileRecord:
        """Flush to the disk and close."""
        self._handle.flush()
        os.fsync(self._handle.fileno())
        self._handle.close()
        return FileRecord(self._path.name, self._bytes, self._hash.hexdigest())


class ShardWriter:
    """Writes the sequences of one source and split, a new shard every ``shard_tokens`` tokens."""

    def __init__(
        self,
        folder: Path,
        split: Split,
        source: int,
        origin: str,
        token_type: str,
        shard_tokens: int = SHARD_TOKENS,
    ):
        self._folder, self._split, self._source, self._origin = folder, split, source, origin
        self._dtype = np.dtype(token_type).newbyteorder("<")
        self._shard_tokens = shard_tokens
        self.shards: list[Shard] = []
        self.files: list[FileRecord] = []
        self._open = False

    def write(self, sequence: Packed) -> None:
        """Append one sequence."""
        if not self._open:
            self._start()
        for piece in sequence:
            self._documents.append(self._tokens)
            self._origins.extend((piece.document, piece.file, piece.line))
            self._token_file.write(piece.ids.astype(self._dtype).tobytes())
            self._write_loss(len(piece.ids), None if piece.loss is None else piece.loss.tobytes())
            self._tokens += len(piece.ids)
        self._bounds.append(self._tokens)
        if self._tokens >= self._shard_tokens:
            self.finish()

    def finish(self) -> None:
        """Close the shard that is open, if any."""
        if not self._open:
            return
        self.files.append(self._token_file.close())
        if self._loss_file is not None:
            self.files.append(self._loss_file.close())
        for suffix, values in (("bounds", self._bounds), ("documents", self._documents), ("origins", self._origins)):
            whole = HashedFile(self._folder / f"{self._name}.{suffix}")
            whole.write(np.frombuffer(values, np.int64).astype("<i8").tobytes())
            self.files.append(whole.close())
        sequences, masked = len(self._bounds) - 1, self._loss_file is not None
        self.shards.append(
            Shard(self._name, self._split, self._source, self._origin, sequences, self._tokens, masked)
        )
        self._open = False

    def _start(self) -> None:
        self._name = f"{self._split}-{self._source:03d}-{len(self.shards):05d}"
        self._token_file = HashedFile(self._folder / f"{self._name}.tokens")
        self._loss_file: HashedFile | None = None
        self._tokens = 0
        self._bounds, self._documents, self._origins = array("q", [0]), array("q"), array("q")
        self._open = True

    def _write_loss(self, count: int, mask: bytes | None) -> None:
        """The file begins with the first token that does not count; ones stand for all before it."""
        if self._loss_file is None:
            if mask is None:
                return
            self._loss_file = HashedFile(self._folder / f"{self._name}.loss")
            self._loss_file.write(b"\1" * self._tokens)
        self._loss_file.write(b"\1" * count if mask is None else mask)
