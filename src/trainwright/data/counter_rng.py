"""Random numbers as a pure function of counters: the same (seed, sample, position) gives the same bits anywhere.

Takes integers and integer arrays, gives arrays of the broadcast shape. It keeps no state, so an order, a mask or a
shuffle needs no generator to be saved, and does not depend on how samples are spread over ranks.
The mixing step is the finaliser of SplitMix64 (Steele, Lea & Flood 2014).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Int64Array: TypeAlias = npt.NDArray[np.int64]
UInt64Array: TypeAlias = npt.NDArray[np.uint64]
Float64Array: TypeAlias = npt.NDArray[np.float64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = (np.uint64(n) for n in (30, 27, 31, 11))
_MASK64 = (1 << 64) - 1
_ROUNDS = 64  # of swap-or-not; the bias left after so many is far below what any test can see


def random_bits(*counters: int | Int64Array | UInt64Array) -> UInt64Array:
    """64 random bits for each tuple of counters; the counters broadcast against each other."""
    with np.errstate(over="ignore"):
        state: UInt64Array = np.zeros(1, np.uint64)
        for counter in counters:
            value = np.uint64(counter & _MASK64) if isinstance(counter, int) else counter.astype(np.uint64)
            state = (state + _GOLDEN) ^ value
            state = (state ^ (state >> _S30)) * _FIRST
            state = (state ^ (state >> _S27)) * _SECOND
            state = state ^ (state >> _S31)
    return state


def random_uniform(*counters: int | Int64Array | UInt64Array) -> Float64Array:
    """Numbers in [0, 1) with 53 random bits each."""
    return (random_bits(*counters) >> _S11).astype(np.float64) * 2.0**-53


def random_key(*counters: int) -> int:
    """One 64-bit key derived from several numbers."""
    return int(random_bits(*counters)[0])


def permute(positions: Int64Array, count: int, key: int) -> Int64Array:
    """Where each position goes in a random permutation of ``range(count)``, in O(1) memory.

    Swap-or-not (Hoang, Morris & Rogaway 2012): a permutation of exactly ``count`` items, so nothing is rejected
    and no table of ``count`` entries is built. Positions must lie in ``range(count)``.
    """
    if count <= 1:
        return positions.copy()
    here = positions.copy()
    offsets = random_bits(key, np.arange(_ROUNDS, dtype=np.int64)) % np.uint64(count)
    for number, offset in enumerate(offsets.tolist()):
        partner = (offset + count - here) % count
        swap = (random_bits(key, number, np.maximum(here, partner)) & np.uint64(1)).astype(bool)
        here = np.where(swap, partner, here)
    return here
