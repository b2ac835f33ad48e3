"""Brings the real Slurm of testbeds/slurm up once, and down again at the end unless TRAINWRIGHT_KEEP_BED is set."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_bed import Bed

from training.tiny import write_model, write_text


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bed)


@pytest.fixture(scope="session")
def slurm(repository: Path) -> Iterator[Bed]:
    """The running bed. Needs root: its nodes are network namespaces."""
    if os.geteuid() != 0:
        pytest.skip("the Slurm bed needs root")
    folder = repository / "testbeds" / "slurm"
    up = subprocess.run([folder / "up.sh"], capture_output=True, text=True, timeout=600, check=False)
    if up.returncode == 77:
        pytest.skip(f"this machine cannot have the Slurm bed: {up.stderr.splitlines()[-1]}")
    if up.returncode != 0:
        pytest.fail(f"testbeds/slurm/up.sh: {up.stderr}")
    bed = Bed(folder, Path(up.stdout.split()[-1]))
    try:
        yield bed
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP_BED"):
            subprocess.run([folder / "down.sh"], capture_output=True, timeout=120, check=False)


@pytest.fixture
def bed(slurm: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """The bed with Slurm's commands on the path, runs in the test's folder, and no job left from another test."""
    monkeypatch.setenv("PATH", f"{slurm.bin}:{os.environ['PATH']}")
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    slurm.here = tmp_path
    slurm.clear()
    yield slurm
    slurm.clear()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny Llama."""
    return write_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture(scope="session")
def tiny_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of text."""
    return write_text(tmp_path_factory.mktemp("text") / "rows.jsonl")
