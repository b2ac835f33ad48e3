"""Pools of ranks, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from parity.pool import Pool


@pytest.fixture(scope="session")
def two() -> Iterator[Pool]:
    """Two ranks."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def four() -> Iterator[Pool]:
    """Four ranks."""
    pool = Pool(4)
    yield pool
    pool.close()
