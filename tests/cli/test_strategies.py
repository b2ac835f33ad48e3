"""The strategies of examples/ run from spec to report on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainwright.runs.folder import list_runs

pytestmark = pytest.mark.slow

STRATEGIES = Path(__file__).resolve().parents[2] / "examples" / "strategies"


@pytest.mark.parametrize("name", sorted(path.stem for path in STRATEGIES.glob("*.yaml")))
def test_a_strategy_learns_saves_and_exports(tmp_path: Path, name: str) -> None:
    pytest.importorskip("torch")
    if name.startswith("zero"):
        pytest.importorskip("deepspeed")
    command = [sys.executable, "-m", "trainwright", "run", str(STRATEGIES / f"{name}.yaml"), "--runs", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = list_runs(tmp_path)
    lines = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    losses = [line["loss"] for line in lines if line["kind"] == "step"]
    assert len(losses) == 20
    assert losses[-1] < losses[0]
    assert (run.checkpoints / "step-00000020" / "manifest.json").is_file()
    assert (run.root / "export" / "model.safetensors").is_file()
