"""Brings a Ray of two nodes up once, and ends it by pid."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_bed import Bed, Ray


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bed)


@pytest.fixture(scope="session")
def ray() -> Iterator[Ray]:
    """The running Ray."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("the Ray bed needs Ray: pip install 'ray[default,train]'")
    # not pytest's folder: Ray puts sockets into it, whose paths may not be long
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as state:
        found = Ray(Path(state))
        try:
            yield found
        finally:
            found.end()


@pytest.fixture
def bed(ray: Ray, tmp_path: Path) -> Bed:
    """The bed with storage of the test's own."""
    return Bed(ray, tmp_path)
