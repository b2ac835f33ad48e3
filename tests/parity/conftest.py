"""Pools of ranks, started once for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from parity.pool import Pool
from training.tiny import llama_config, write_model, write_text


# Not for the session: every group that gloo has made keeps a thread that polls, and other tests wait for the cores.
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


@pytest.fixture
def eight() -> Iterator[Pool]:
    """Eight ranks, for the one test that needs them."""
    pool = Pool(8)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny Llama."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def odd_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with tokens that no number of ranks divides, and a head of its own."""
    config = llama_config(vocab_size=123, tie_word_embeddings=False)
    return write_model(tmp_path_factory.mktemp("model") / "odd", config)


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of text."""
    return write_text(tmp_path_factory.mktemp("text") / "rows.jsonl")
