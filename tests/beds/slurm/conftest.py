"""Brings the real Slurm of testbeds/slurm up once, and down again at the end unless TRAINWRIGHT_KEEP_BED is set.

What only waits for Slurm's clocks is started before the first test and looked at by the last.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_bed import Bed, Early

from training.tiny import write_model, write_text


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "late: looks at what was begun early; runs last")
    config.addinivalue_line("markers", "versions: what releases of Slurm do differently; runs on each of them")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bed)
    items.sort(key=lambda item: item.get_closest_marker("late") is not None)


@pytest.fixture(scope="session")
def slurm(repository: Path) -> Iterator[Bed]:
    """The running bed. Needs root: its nodes are network namespaces."""
    if os.geteuid() != 0:
        pytest.skip("the Slurm bed needs root")
    folder = repository / "testbeds" / "slurm"
    # a bed of another Debian release must see the interpreter that runs the tests
    binds = {"TRAINWRIGHT_BED_BINDS": f"{sys.prefix}:{sys.base_prefix}"}
    up = subprocess.run(
        [folder / "up.sh"], env={**os.environ, **binds}, capture_output=True, text=True, timeout=900, check=False
    )
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


@pytest.fixture(scope="session")
def early(slurm: Bed, tmp_path_factory: pytest.TempPathFactory) -> Early:
    """A run and a job with a time limit of one minute, which Slurm checks each half minute; on n2, out of the way."""
    here = tmp_path_factory.mktemp("early")
    with pytest.MonkeyPatch.context() as patch:
        _settle(slurm, here, patch)
        slurm.slurm("scancel", "--user=root")
        overrides = {"train": {"time": 1, "nodelist": "n2"}, "notice_seconds": 30}
        target = {"name": "slurm", "overrides": overrides}
        run = slurm.submit(slurm.script("early", script="patient.py", target=target))
        options = ("--parsable", "--job-name=early", "--nodelist=n2", f"--output={here}/%j.log", "--no-requeue")
        timeout = slurm.slurm("sbatch", *options, "--time=1", "--wrap=sleep 200").strip()
    return Early(run, timeout, here)


def _settle(bed: Bed, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Slurm's commands on the path, runs and files in a folder."""
    patch.setenv("PATH", f"{bed.bin}:{os.environ['PATH']}")
    patch.setenv("TRAINWRIGHT_RUNS", str(folder / "runs"))
    patch.setenv("OMP_NUM_THREADS", "1")
    patch.chdir(folder)
    bed.here = folder


@pytest.fixture
def bed(slurm: Bed, early: Early, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bed]:
    """The bed with Slurm's commands on the path, runs in the test's folder, and no job left from another test."""
    del early  # only begun
    _settle(slurm, tmp_path, monkeypatch)
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
