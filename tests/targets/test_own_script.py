"""The example script under the real torchrun and the real supervisor: it trains, survives a kill and resumes."""

from __future__ import annotations

from pathlib import Path

import pytest
from local_machine import Machine, kill, until

from trainwright.runs.state import JobRef
from trainwright.spec.load import load
from trainwright.targets.local.process import marked
from trainwright.targets.local.stages import Stage
from trainwright.targets.local.target import Local


@pytest.fixture
def example(repository: Path) -> Path:
    return repository / "examples" / "own-script"


def test_the_example_spec_is_valid_and_names_its_script(example: Path) -> None:
    spec = load(example / "run.yaml").spec
    assert spec.train is not None
    assert spec.train.script == str(example / "train.py")
    assert spec.train.args == ("--steps", "300", "--save-every", "100")


def torchrun(example: Path, *args: str) -> Stage:
    launcher = ("python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    return Stage("train", (*launcher, str(example / "train.py"), *args))


def text(ref: JobRef) -> str:
    return "\n".join(line.text for line in Local().logs(ref))


@pytest.mark.slow
def test_a_killed_torchrun_leaves_no_worker_and_the_run_goes_on_from_its_checkpoint(
    machine: Machine, example: Path
) -> None:
    stage = torchrun(example, "--steps=4000", "--save-every=20")
    ref = machine.submit(stage, env={"OMP_NUM_THREADS": "1"})
    until(lambda: "step 40:" in text(ref), "forty steps")
    record = machine.record(ref)
    processes = marked(record.mark)
    launcher = min(processes)
    kill(launcher)
    until(lambda: machine.record(ref).attempt == 2, "the second attempt")
    assert not set(processes) & set(marked(record.mark)), "a worker of the first attempt trains on"
    until(lambda: "resumed at step" in text(ref), "the resume")
    Local().cancel(ref)


@pytest.mark.slow
def test_an_error_in_the_script_stands_on_top(machine: Machine, example: Path) -> None:
    ref = machine.submit(torchrun(example, "--steps=50", "--fail-at=3"), env={"OMP_NUM_THREADS": "1"})
    state = machine.end(ref)
    assert state.phase == "FAILED"
    assert state.reason is not None
    assert "ValueError: asked to fail at step 3" in state.reason.sentence
    assert f"{example / 'train.py'}:" in state.reason.sentence
