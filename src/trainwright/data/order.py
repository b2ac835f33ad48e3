"""The one global order of samples: position (samples consumed since the start of the run) → sequence.

Takes counts, weights and a seed; gives sequence numbers. It knows neither ranks nor batches: each rank asks for its
own slice of positions, so any layout and any restart sees the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainwright.data.counter_rng import Int64Array, permute, random_key

_BLOCK = 1024  # positions computed at a time; a call for a few of them then costs a slice
_EPOCH, _SOURCE = 1, 2  # keeps the two families of permutations apart


class GlobalOrder:
    """Which sequence every position of a run shows; a pure function of its arguments.

    ``counts`` are the sequences of each source, which lie one source after another. An epoch draws
    ``round(count · weight)`` of each source (at least one), and a source shows all of its sequences before it shows
    one again, across epochs. With ``shuffle`` every epoch has its own permutation; without it sources come in order.
    """

    def __init__(
        self,
        counts: int | Sequence[int],
        seed: int,
        shuffle: bool = True,
        weights: Sequence[float] | None = None,
    ):
        sizes = [counts] if isinstance(counts, int) else list(counts)
        chosen = [1.0] * len(sizes) if weights is None else list(weights)
        if len(chosen) != len(sizes):
            raise ValueError(f"{len(sizes)} sources but {len(chosen)} weights")
        draws = [max(1, round(n * w)) if n else 0 for n, w in zip(sizes, chosen, strict=True)]
        self.epoch_length = sum(draws)
        """Samples in one epoch."""
        self.draws = tuple(draws)
        """Samples of each source in one epoch."""
        if not self.epoch_length:
            raise ValueError("there are no sequences to put in order")
        self._seed, self._shuffle = seed, shuffle
        self._counts, self._draws = np.array(sizes, np.int64), np.array(draws, np.int64)
        self._first_sequence = np.cumsum(self._counts) - self._counts
        self._ends = np.cumsum(self._draws)
        self._blocks: dict[int, Int64Array] = {}

    def indices(self, start: int, stop: int) -> Int64Array:
        """Sequence numbers at positions ``start`` to ``stop - 1``; int64, any epoch."""
        if not 0 <= start <= stop:
            raise ValueError(f"positions {start} to {stop} are no range of samples")
        if start == stop:
            return np.empty(0, np.int64)
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        joined = np.concatenate([self._block(number) for number in range(first, last + 1)])
        return joined[start - first * _BLOCK : stop - first * _BLOCK]

    def _block(self, number: int) -> Int64Array:
        if number not in self._blocks:
            if len(self._blocks) > 16:
                self._blocks.clear()
            self._blocks[number] = self._compute(np.arange(number * _BLOCK, (number + 1) * _BLOCK, dtype=np.int64))
        return self._blocks[number]

    def _compute(self, positions: Int64Array) -> Int64Array:
        epochs, within = np.divmod(positions, self.epoch_length)
        if self._shuffle:
            for epoch in np.unique(epochs).tolist():
                chosen = epochs == epoch
                key = random_key(self._seed, _EPOCH, epoch)
                within[chosen] = permute(within[chosen], self.epoch_length, key)
        sources = np.searchsorted(self._ends, within, side="right")
        draw = epochs * self._draws[sources] + within - (self._ends - self._draws)[sources]
        cycles, place = np.divmod(draw, self._counts[sources])
        if self._shuffle:
            for source in np.unique(sources).tolist():
                if self._draws[source] == self._counts[source]:
                    continue  # every epoch shows each sequence once: the epoch's permutation is enough
                for cycle in np.unique(cycles[sources == source]).tolist():
                    chosen = (sources == source) & (cycles == cycle)
                    key = random_key(self._seed, _SOURCE, source, cycle)
                    place[chosen] = permute(place[chosen], int(self._counts[source]), key)
        return np.asarray(self._first_sequence[sources] + place, np.int64)
