"""A tiny model and text, made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.tiny import write_model, write_text


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny Llama."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of text."""
    return write_text(tmp_path_factory.mktemp("text") / "rows.jsonl")
