"""Fixtures of the targets' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_machine import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose runs are ended with the test."""
    here = Machine(tmp_path)
    try:
        yield here
    finally:
        here.sweep()
