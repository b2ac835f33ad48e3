"""Documents → sequences of at most ``sequence_length`` tokens, document boundaries kept.

Takes pieces (a document, or a part of a long one); gives lists of pieces, each list one sequence. It neither
reads nor writes files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

OverLong: TypeAlias = Literal["split", "truncate", "drop", "error"]
_WINDOW_TOKENS = 1 << 22  # how many tokens are looked at together for a good fit
_WINDOW_SEQUENCES = 128


@dataclass(frozen=True, slots=True)
class Piece:
    """A document or part of one, with where it came from."""

    ids: npt.NDArray[np.uint32]
    loss: npt.NDArray[np.uint8] | None
    document: int
    file: int
    line: int


Packed: TypeAlias = list[Piece]


def cut(piece: Piece, size: int) -> list[Piece]:
    """Consecutive parts of at most ``size`` tokens."""
    return [
        Piece(
            piece.ids[start : start + size],
            None if piece.loss is None else piece.loss[start : start + size],
            piece.document,
            piece.file,
            piece.line,
        )
        for start in range(0, len(piece.ids), size)
    ]


def wrap(piece: Piece, before: list[int], after: list[int]) -> Piece:
    """Put special tokens around a piece, such as [CLS] and [SEP]."""
    ids = np.concatenate([np.array(before, np.uint32), piece.ids, np.array(after, np.uint32)])
    return Piece(ids, None, piece.document, piece.file, piece.line)


class Packer:
    """Collects pieces and gives sequences. Every piece must fit in a sequence."""

    def __init__(self, sequence_length: int, packing: bool, keep_order: bool):
        """``keep_order``: documents stay in the order they came, at the price of more room left at the ends."""
        self._length, self._packing, self._keep_order = sequence_length, packing, keep_order
        self._window: list[Piece] = []
        self._tokens = 0
        self._limit = max(_WINDOW_TOKENS, _WINDOW_SEQUENCES * sequence_length)

    def add(self, piece: Piece) -> Iterable[Packed]:
        """Take a piece; gives the sequences that are complete."""
        if not self._packing:
            return [[piece]]
        self._window.append(piece)
        self._tokens += len(piece.ids)
        return self.finish() if self._tokens >= self._limit else []

    def finish(self) -> Iterable[Packed]:
        """Everything that was taken and not yet given."""
        pieces, self._window, self._tokens = self._window, [], 0
        return in_order(pieces, self._length) if self._keep_order else best_fit(pieces, self._length)


def in_order(pieces: Iterable[Piece], length: int) -> Iterator[Packed]:
    """Fill one sequence after another, next fit."""
    sequence: Packed = []
    used = 0
    for piece in pieces:
        if sequence and used + len(piece.ids) > length:
            yield sequence
            sequence, used = [], 0
        sequence.append(piece)
        used += len(piece.ids)
    if sequence:
        yield sequence


def best_fit(pieces: list[Piece], length: int) -> list[Packed]:
    """Best fit decreasing: the longest first, each into the fullest sequence that still has room.

    Few tokens of room are left over and no document is cut that fits (Ding et al. 2024, "Fewer truncations").
    Equal lengths keep their order, so the result depends on the pieces alone.
    """
    sequences: list[Packed] = []
    with_room: list[list[int]] = [[] for _ in range(length + 1)]  # by tokens of room left
    rooms = 0  # bit r is set when some sequence has exactly r tokens of room
    for piece in sorted(pieces, key=lambda piece: -len(piece.ids)):
        size = len(piece.ids)
        enough = rooms >> size
        if enough:
            room = size + (enough & -enough).bit_length() - 1
            number = with_room[room].pop()
            if not with_room[room]:
                rooms &= ~(1 << room)
            sequences[number].append(piece)
        else:
            room, number = length, len(sequences)
            sequences.append([piece])
        left = room - size
        if left:
            with_room[left].append(number)
            rooms |= 1 << left
    return sequences
