"""Pools of ranks, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.pool import Pool
from training.tiny import write_model, write_text


@pytest.fixture(scope="package")
def one() -> Iterator[Pool]:
    """One rank: what the trainer computes without cutting anything."""
    pool = Pool(1)
    yield pool
    pool.close()


@pytest.fixture(scope="package")
def two() -> Iterator[Pool]:
    """Two ranks."""
    pool = Pool(2)
    yield pool
    pool.close()


@pytest.fixture(scope="package")
def four() -> Iterator[Pool]:
    """Four ranks."""
    pool = Pool(4)
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def eight() -> Iterator[Pool]:
    """Eight ranks, for the few tests that need them."""
    pool = Pool(8)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny Llama."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of text."""
    return write_text(tmp_path_factory.mktemp("text") / "rows.jsonl")
