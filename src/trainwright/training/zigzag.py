"""Which positions of a sequence each rank of a context group holds.

Takes a rank, their number and a length; gives positions. With a causal mask later positions cost more, so a sequence
is cut into twice as many chunks as ranks, and rank r holds the chunks r and 2·ranks − 1 − r: equal work for all.
Standard library and numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Places = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class ZigZag:
    """One rank's place among ``size`` ranks that share sequences."""

    rank: int = 0
    size: int = 1

    @property
    def multiple(self) -> int:
        """What lengths must be a multiple of."""
        return 2 * self.size if self.size > 1 else 1

    def chunks(self, rank: int | None = None) -> tuple[int, int]:
        """Numbers of the two chunks of a rank, of 2·size; this one's when no rank is named."""
        of = self.rank if rank is None else rank
        return of, 2 * self.size - 1 - of

    def places(self, length: int) -> Places:
        """This rank's positions of ``length``, in the order in which it holds them."""
        if self.size == 1:
            return np.arange(length)
        each = length // (2 * self.size)
        held: Places = np.concatenate([np.arange(number * each, (number + 1) * each) for number in self.chunks()])
        return held


#: A rank that holds its sequences whole.
ALONE = ZigZag()
