"""Memory-mapped sequences: what a trainer reads, one sequence at a time, without loading a shard.

Takes the shards of a prepared folder; gives token ids, loss mask and document ids. It knows nothing of batches.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trainwright.data.manifest import Manifest, Shard


@dataclass(frozen=True, slots=True)
class Sequence:
    """One training sequence of T ≤ sequence_length tokens, not padded."""

    input_ids: npt.NDArray[np.int32]
    """[T]"""
    loss_mask: npt.NDArray[np.bool_]
    """[T]: true where the token counts as a target."""
    document_ids: npt.NDArray[np.int32]
    """[T]: 0, 1, 2, … for the documents in this sequence."""
    index: int
    """Number of the sequence in its split."""


@dataclass(frozen=True)
class _MappedShard:
    folder: Path
    shard: Shard
    token_type: str

    def _map(self, suffix: str, dtype: str) -> npt.NDArray[Any]:
        path = self.folder / f"{self.shard.name}.{suffix}"
        return np.asarray(np.memmap(path, dtype=np.dtype(dtype).newbyteorder("<"), mode="r"))

    @cached_property
    def tokens(self) -> npt.NDArray[Any]:
        return self._map("tokens", self.token_type)

    @cached_property
    def loss(self) -> npt.NDArray[Any] | None:
        return self._map("loss", "uint8") if self.shard.masked else None

    @cached_property
    def bounds(self) -> npt.NDArray[Any]:
        return self._map("bounds", "int64")

    @cached_property
    def documents(self) -> npt.NDArray[Any]:
        return self._map("documents", "int64")

    @cached_property
    def origins(self) -> npt.NDArray[Any]:
        return self._map("origins", "int64").reshape(-1, 3)

    def pieces(self, number: int) -> tuple[int, int, int, int]:
        """First and last token of a sequence (end exclusive), first and last document in it (end exclusive)."""
        start, stop = int(self.bounds[number]), int(self.bounds[number + 1])
        first, last = self.documents.searchsorted((start, stop))
        return start, stop, int(first), int(last)


@dataclass(frozen=True)
class Sequences:
    """The sequences of one split; sources lie one after another. Safe to share between threads."""

    folder: Path
    manifest: Manifest
    split: str
    _shards: list[_MappedShard] = field(init=False, repr=False, compare=False)
    _starts: list[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shards = [shard for shard in self.manifest.shards if shard.split == self.split]
        starts = [0]
        for shard in shards:
            starts.append(starts[-1] + shard.sequences)
        mapped = [_MappedShard(self.folder, shard, self.manifest.token_type) for shard in shards]
        object.__setattr__(self, "_shards", mapped)
        object.__setattr__(self, "_starts", starts)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, index: int) -> Sequence:
        shard, number = self._find(index)
        start, stop, first, last = shard.pieces(number)
        loss = shard.loss
        lengths: npt.NDArray[np.int64] = np.diff(np.append(shard.documents[first:last], stop))
        return Sequence(
            shard.tokens[start:stop].astype(np.int32),
            np.ones(stop - start, bool) if loss is None else loss[start:stop].astype(bool),
            np.repeat(np.arange(last - first, dtype=np.int32), lengths),
            int(index) % len(self),
        )

    def __iter__(self) -> Iterator[Sequence]:
        return (self[index] for index in range(len(self)))

    @property
    def source_counts(self) -> tuple[int, ...]:
        """Sequences of each source, in the order of the spec; what GlobalOrder weighs."""
        totals = [0] * (1 + max((mapped.shard.source for mapped in self._shards), default=0))
        for mapped in self._shards:
            totals[mapped.shard.source] += mapped.shard.sequences
        return tuple(totals)

    @property
    def source_tokens(self) -> tuple[int, ...]:
        """Tokens of each source, in the order of the spec."""
        totals = [0] * len(self.source_counts)
        for mapped in self._shards:
            totals[mapped.shard.source] += mapped.shard.tokens
        return tuple(totals)

    def documents(self, index: int) -> list[int]:
        """Numbers of the documents that a sequence holds, unique within the prepared data."""
        shard, number = self._find(index)
        _, _, first, last = shard.pieces(number)
        return [int(n) for n in shard.origins[first:last, 0]]

    def origins(self, index: int) -> list[str]:
        """Where the documents of a sequence come from, as ``file:line`` or ``file``."""
        shard, number = self._find(index)
        _, _, first, last = shard.pieces(number)
        names = self.manifest.read_files(self.folder)[shard.shard.origin]
        return [
            f"{names[file]}:{line}" if line else names[file] for _, file, line in shard.origins[first:last].tolist()
        ]

    def _find(self, index: int) -> tuple[_MappedShard, int]:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        number = bisect.bisect_right(self._starts, place) - 1
        return self._shards[number], int(place) - self._starts[number]
