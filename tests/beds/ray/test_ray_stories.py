"""What users live through with a run on a running Ray: head and worker on this machine, by the real Jobs API."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ray_bed import Bed, Run, carrying, until

from training.tiny import write_model, write_text
from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import RunFolder, find
from trainwright.runs.steps import saved_step
from trainwright.targets.ray.api import Jobs

SCRIPTS = Path(__file__).parent.parent / "slurm" / "scripts"  # the same scripts run on every bed


def tiny(bed: Bed, name: str, steps: int, **fields: object) -> Path:
    """The built-in trainer with a tiny model, whose losses depend on the order of its samples."""
    bed.shared.mkdir(exist_ok=True)
    if not (bed.shared / "model").exists():
        write_model(bed.shared / "model")
        write_text(bed.shared / "text.jsonl")
    data = {"sources": [str(bed.shared / "text.jsonl")], "eval_fraction": 0.2}
    return bed.write(
        name, model=str(bed.shared / "model"), data=data,
        sequence_length=24, duration=f"{steps} steps", global_batch_size=4, micro_batch_size=2, precision="fp32",
        schedule={"name": "constant", "warmup": "1 steps"}, checkpoint={"every": "4 steps"}, **fields,
    )  # fmt: skip


def script(bed: Bed, name: str, file: str, *args: str, **fields: object) -> Path:
    """A user's own script."""
    bed.shared.mkdir(exist_ok=True)
    shutil.copy(SCRIPTS / file, bed.shared / file)
    train = {"script": str(bed.shared / file), "args": list(args)}
    return bed.write(name, train=train, global_batch_size=2, **fields)


def losses(folder: Path) -> dict[int, float]:
    """Loss of each step, as it was logged last."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


def root(bed: Bed, run: Run) -> Path:
    """The run's folder on the nodes' storage."""
    return bed.shared / "runs" / run.folder.run_id


def test_the_whole_pipeline_trains_on_two_ray_nodes(bed: Bed) -> None:
    """Stories 1 and 12, and submit twice."""
    spec = tiny(bed, "whole", 12, register={"name": "tiny", "path": str(bed.shared / "registry")})
    assert "ok       train: 2 node(s) with 1 CPU" in bed.cli("doctor", str(spec))
    run = bed.submit(spec)
    seen: set[str | None] = set()
    state = run.until(lambda s: seen.add(s.stage) or s.final, "the end")
    assert (state.phase, state.reason, state.attempt) == ("SUCCEEDED", None, 1)
    assert "train" in seen
    assert max(losses(root(bed, run))) == 12
    assert (root(bed, run) / "checkpoints" / "step-00000012" / "manifest.json").is_file()
    assert (bed.shared / "registry" / "tiny" / "1").is_dir()
    before = len(Jobs(bed.ray.address).jobs())
    assert bed.submit(spec).folder == run.folder
    assert len(Jobs(bed.ray.address).jobs()) == before


def test_an_error_of_the_user_is_told_and_not_tried_again(bed: Bed) -> None:
    """Stories 2 and 11, by a client that has none of the nodes' storage."""
    run = bed.submit(script(bed, "wrong", "collective.py", "raise", "50"), away=True)
    state = run.until(lambda s: s.phase == "FAILED", "the failure")
    assert state.reason is not None
    assert state.reason.class_ == "user-error"
    assert "ValueError: label 7 is outside of the vocabulary" in state.reason.sentence
    assert "collective.py:" in state.reason.sentence
    assert (state.rank, state.attempt) == (1, 1)
    assert run.folder.root.parent == bed.here / "runs"
    for rank in (0, 1):
        assert [line for line in run.lines(rank) if line.startswith("step 1")] == ["step 1 sum 2"]


def test_a_killed_worker_restarts_its_gang_from_the_checkpoint(bed: Bed) -> None:
    """Story 3: the steps after it are those of a run that nobody disturbed."""
    run = bed.submit(tiny(bed, "killed", 400))
    folder = root(bed, run)
    until(lambda: (saved_step(RunFolder(folder)) or 0) >= 8, "a checkpoint")
    before, saved = losses(folder), saved_step(RunFolder(folder)) or 0
    os.kill(carrying(f"TRAINWRIGHT_RUN_DIR={folder}", "trainwright.training.worker")[-1], signal.SIGKILL)
    reached = max(before)
    until(lambda: max(losses(folder)) > reached + 8, "steps of the second attempt")
    state = run.until(lambda s: s.attempt == 2 and s.phase == "RUNNING", "the second attempt")
    assert "started again" in str(state.reason)
    after = losses(folder)
    assert {step: after[step] for step in before if step <= saved} == {
        step: loss for step, loss in before.items() if step <= saved
    }
    assert "CANCELLED" in bed.cli("cancel", run.folder.run_id, "--runs", str(run.folder.root.parent), "--now")


@pytest.mark.parametrize("away", [False, True], ids=["shared-storage", "own-folder"])
def test_a_cancelled_run_sees_term_saves_and_goes_on_from_there(bed: Bed, away: bool) -> None:
    """Story 5."""
    one = {"nodes": 1, "processes_per_node": 1}
    run = bed.submit(script(bed, "stop", "patient.py", compute=one), away)
    until(lambda: run.status() and any("from step 0" in line for line in run.lines()), "its first line")
    where = ("--runs", str(run.folder.root.parent))
    assert "CANCELLED" in bed.cli("cancel", run.folder.run_id, *where)
    assert any("after ['SIGTERM']" in line for line in run.lines())
    bed.cli("resume", run.folder.run_id, *where)
    state = run.until(lambda s: s.final, "the end")
    assert (state.phase, state.attempt) == ("SUCCEEDED", 2)


def test_what_ray_has_not_got_keeps_a_run_waiting_and_that_is_told(bed: Bed) -> None:
    """Story 6."""
    run = bed.submit(script(bed, "large", "collective.py", "go", "3", compute={"nodes": 3, "processes_per_node": 1}))
    state = run.until(lambda s: s.reason is not None and s.reason.id == "ray-too-much", "the reason")
    assert state.phase == "PENDING"
    assert state.reason is not None
    assert "asks for 3 node(s) with 1 CPU, but Ray has 2 of that size" in state.reason.sentence
    assert "CANCELLED" in bed.cli("cancel", run.folder.run_id, "--runs", str(run.folder.root.parent))


def test_two_submits_at_once_are_one_run(bed: Bed) -> None:
    """Story 8."""
    spec = script(bed, "twice", "collective.py", "go", "3")
    bundle, runs = bed.here / "bundle", bed.shared / "runs"
    bed.cli("render", str(spec), "--dir", str(bundle))
    command = [sys.executable, "-m", "trainwright", "submit", str(bundle), "--output", "json", "--runs", str(runs)]

    def submit(_: int) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=bed.here)
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["ref"])

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(submit, range(2))
    assert first == second
    run = Run(find("twice", runs))
    assert run.until(lambda s: s.final, "the end").phase == "SUCCEEDED"


def test_a_ray_that_is_not_there_is_told(bed: Bed) -> None:
    with pytest.raises(SystemUnreachable, match="does not answer"):
        Jobs("http://127.0.0.1:9", pause=lambda _: None).version()
