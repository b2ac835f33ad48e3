"""Brings the Kubernetes of testbeds/kubernetes up once, and down again unless TRAINWRIGHT_KEEP_BED is set.

The first of all builds takes minutes; start `make bed-build` before. Tests that take ``real_kubernetes`` have real
nodes, where containers run; the others run with them or without.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes_bed import Bed, CannotBeHereError


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bed)


@pytest.fixture(scope="session")
def kubernetes(repository: Path) -> Iterator[Bed]:
    """The running bed with its fake nodes."""
    folder = repository / "testbeds" / "kubernetes"
    kubeconfig = _up(Bed(folder, Path())).split()[-1]
    bed = Bed(folder, Path(kubeconfig))
    try:
        yield bed
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP_BED"):
            bed.script("down")


@pytest.fixture(scope="session")
def real_kubernetes(kubernetes: Bed) -> Bed:
    """The same bed with two real nodes."""
    _up(kubernetes, NODES="2")
    return kubernetes


def _up(bed: Bed, **environment: str) -> str:
    """Bring it up; a machine that cannot have it skips what needs it, and says why."""
    try:
        return bed.script("up", **environment)
    except CannotBeHereError as reason:
        pytest.skip(str(reason))


@pytest.fixture
def namespace(kubernetes: Bed) -> Iterator[str]:
    """A namespace of the test's own; what it holds goes with it."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    kubernetes.kubectl("create", "namespace", name)
    kubernetes.kubectl("wait", "--for=create", "serviceaccount/default", "--namespace", name, "--timeout=60s")
    yield name
    kubernetes.kubectl("delete", "namespace", name, "--wait=false")
