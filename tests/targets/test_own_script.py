"""The example script under the real launcher and the real supervisor: it trains, survives kills and resumes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from local_machine import Machine, gone, kill, until

from trainwright import api
from trainwright.runs.state import JobRef
from trainwright.spec.load import load
from trainwright.targets.local.process import marked, send
from trainwright.targets.local.target import Local


@pytest.fixture
def example(repository: Path) -> Path:
    return repository / "examples" / "own-script"


def test_the_example_spec_is_valid_and_names_its_script(example: Path) -> None:
    spec = load(example / "run.yaml").spec
    assert spec.train is not None
    assert spec.train.script == str(example / "train.py")
    assert spec.train.args == ("--steps", "300", "--save-every", "100")


def start(machine: Machine, example: Path, *args: str) -> JobRef:
    """Run the example through the real stages, with other arguments."""
    overrides = [f"train.args={json.dumps(args)}", "target.overrides.restart_delay_seconds=0"]
    loaded = api.load(example / "run.yaml", overrides)
    return api.start(api.render(loaded, api.plan(loaded)), runs=machine.runs)[1]


def lines(ref: JobRef, attempt: int) -> str:
    return "\n".join(line.text for line in Local().logs(ref) if line.attempt == attempt)


@pytest.mark.slow
def test_a_script_saves_and_goes_on_through_a_cancel_a_killed_supervisor_and_a_killed_launcher(
    machine: Machine, example: Path
) -> None:
    ref = start(machine, example, "--steps=100000", "--save-every=20")
    until(lambda: "step 40:" in lines(ref, 1), "forty steps")
    assert Local().cancel(ref).phase == "CANCELLED"
    assert lines(ref, 1).count("saved at step") == 2, "both ranks leave at the same step"

    Local().resume(ref)
    until(lambda: "step" in lines(ref, 2).replace("resumed at step", ""), "steps after the cancel")
    assert lines(ref, 2).count("resumed at step") == 2
    record = machine.record(ref)
    processes = marked(record.mark)
    send(record.supervisor, signal.SIGKILL)
    until(lambda: all(map(gone, processes)), "the end of training")
    assert lines(ref, 2).count("saved at step") == 2, "losing the supervisor costs no step"

    Local().resume(ref)
    until(lambda: "resumed at step" in lines(ref, 3), "the resume")
    record = machine.record(ref)
    processes = marked(record.mark)
    supervisor = record.supervisor.pid
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    kill(next(pid for pid in processes if str(pid) in children))
    until(lambda: machine.record(ref).attempt == 4, "the restart")
    assert all(map(gone, processes)), "a rank of the third attempt trains on"
    assert Local().cancel(ref, grace_seconds=0).phase == "CANCELLED"


@pytest.mark.slow
def test_an_error_in_the_script_stands_on_top(machine: Machine, example: Path) -> None:
    ref = start(machine, example, "--steps=50", "--fail-at=30")
    state = machine.end(ref)
    assert (state.phase, state.rank) == ("FAILED", 1)
    assert state.reason is not None
    assert "rank 1: ValueError: asked to fail at step 30" in state.reason.sentence
    assert f"{example / 'train.py'}:" in state.reason.sentence
    assert "step 20: loss" in "".join(line.text for line in Local().logs(ref, rank=0)), "its output is kept as well"
