"""What a job does between two attempts: budgets, lost nodes, nodes to leave out, and the one code of many nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from specs import own_script

from trainwright.runs.events import SUPERVISOR, EventLog, read_events
from trainwright.runs.failures import Failure
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import Retry
from trainwright.spec.write import spec_to_yaml
from trainwright.targets.slurm.between import Ended, answer, combine, often
from trainwright.targets.slurm.hosts import expand

ERROR, ECHO = Failure("ValueError: x", rank=1), Failure("Connection closed by peer", rank=0, echo=True)


@pytest.mark.parametrize(
    ("codes", "srun", "failure", "code"),
    [
        ([0, 75], 0, None, 75),
        ([75, 75], 0, None, 75),
        ([1, 70], 70, ERROR, 1),  # the other node only lost the connection
        ([1, 70], 70, ECHO, 70),  # an exception that is an echo of a crash elsewhere
        ([1], 137, ECHO, 70),  # the other node left no word at all
        ([1, 75], 1, ERROR, 1),
        ([2, 2], 2, None, 2),
        ([76, 70], 76, None, 76),
        ([77, 1], 77, ERROR, 77),
        ([], 143, None, 143),
        ([], 0, None, 70),
        ([0, 70], 70, None, 70),
    ],
)
def test_one_code_from_those_of_the_nodes(codes: list[int], srun: int, failure: Failure | None, code: int) -> None:
    assert combine(codes, srun, failure) == code


def crash(*nodes: str, saved: int | None = None, class_: str = "infrastructure", code: int = 70) -> Ended:
    return Ended(code, class_, saved, nodes)


@pytest.mark.parametrize(
    ("ended", "history", "expected"),
    [
        (crash(), [], "again 5"),
        (crash(), [crash()], "again 10"),
        (crash(), [crash()] * 3, "stop 70"),
        (crash(code=1, class_="user"), [], "stop 1"),
        (crash(code=76, class_="user"), [], "stop 76"),
        (crash(class_="oom", code=137), [], "stop 137"),
        (crash(code=75, class_="resume", saved=4), [], "requeue"),
        (crash(code=75, class_="resume", saved=9), [crash(code=75, class_="resume", saved=n) for n in range(8)],
         "requeue"),
        (crash(code=75, class_="resume"), [crash(code=75, class_="resume")] * 9, "stop 75"),
        (crash("n1"), [], "again 5"),
        (crash("n1"), [crash("n1")], "exclude n1"),
        (crash("n1"), [crash("n2")], "again 10"),
        (crash("n9"), [crash("n9")], "again 10"),  # not among the nodes that the job has
    ],
)  # fmt: skip
def test_what_follows_an_end(ended: Ended, history: list[Ended], expected: str) -> None:
    said = answer(ended, history, Retry(), allocated=["n1", "n2"], stopping=False, cancelled=False)
    assert said == expected


def test_near_the_time_limit_a_crash_is_queued_again_and_a_cancelled_run_is_not() -> None:
    common = {"allocated": ["n1"], "history": [], "retry": Retry()}
    assert answer(crash(), stopping=True, cancelled=False, **common) == "requeue"  # type: ignore[arg-type]
    assert answer(crash(code=75), stopping=True, cancelled=True, **common) == "stop 75"  # type: ignore[arg-type]


def test_nodes_that_failed_twice() -> None:
    assert often([crash("n1"), crash("n2"), crash("n1"), crash()]) == ["n1"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("gpu-[001-002,007],login1", ["gpu-001", "gpu-002", "gpu-007", "login1"]),
        ("r[1-2]c,x", ["r1c", "r2c", "x"]),
        ("", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand(text) == names


class Folder:
    """A run's folder as a batch script leaves it, and the module started on it as the batch script does."""

    def __init__(self, root: Path):
        root.mkdir()
        self.run = RunFolder(root)
        self.run.spec_file.write_text(spec_to_yaml(own_script()))

    def started(self, attempt: int, job: str = "7") -> None:
        EventLog(self.run.events, self.run.run_id, attempt, SUPERVISOR).write(
            "started", stage="train", job=job, nodes="n[1-2]"
        )
        (self.run.logs / str(attempt)).mkdir(parents=True)

    def between(self, code: str, attempt: int) -> str:
        module = [sys.executable, "-P", "-m", "trainwright.targets.slurm.between", str(self.run.root), "train", code]
        done = subprocess.run(
            [*module, "--attempt", str(attempt), "--nodes", "n[1-2]"], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def last(self) -> dict[str, object]:
        return read_events(self.run.events)[-1]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "demo-00000001")


def test_a_crash_is_told_with_the_node_that_failed_first(folder: Folder) -> None:
    folder.started(1)
    log = "srun: error: n2: task 1: Exited with exit code 70\nsrun: error: n1: task 0: Terminated\n"
    folder.run.stage_log(1, "train").write_text(log)
    assert folder.between("143", 1) == "again 5"
    assert {k: folder.last()[k] for k in ("kind", "code", "class", "nodes")} == {
        "kind": "failed", "code": 143, "class": "infrastructure", "nodes": ["n2"],
    }  # fmt: skip


def test_the_line_before_sruns_own_is_the_error(folder: Folder) -> None:
    folder.started(1)
    folder.run.stage_log(1, "train").write_text(
        "/usr/bin/python3: No module named trainwright\nsrun: error: n1: task 0: Exited with exit code 1\n"
    )
    (folder.run.logs / "1" / "train-0.exit").write_text("1\n")
    assert folder.between("1", 1) == "stop 1"
    assert folder.last()["exception"] == "/usr/bin/python3: No module named trainwright"


def test_memory_is_not_tried_again(folder: Folder) -> None:
    folder.started(1)
    folder.run.stage_log(1, "train").write_text(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: n1: task 0: Out Of Memory\n"
    )
    assert folder.between("137", 1) == "stop 137"
    assert folder.last()["class"] == "oom"


def test_a_users_own_text_does_not_look_like_slurms(folder: Folder) -> None:
    folder.started(1)
    folder.run.stage_log(1, "train").write_text("my note: srun: error: n1: task 0: Out Of Memory\n")
    assert folder.between("137", 1) == "again 5"


def test_a_lost_node_is_found_in_the_log_and_counted(folder: Folder) -> None:
    folder.started(1)
    folder.run.stage_log(1, "train").write_text("srun: error: Node failure on n2\n")
    assert folder.between("lost", 2) == "again 5"
    assert {k: folder.last()[k] for k in ("attempt", "class", "nodes")} == {
        "attempt": 1, "class": "node-lost", "nodes": ["n2"],
    }  # fmt: skip
    assert folder.between("lost", 2) == "again 0"  # told once


def test_silence_means_that_the_node_of_the_batch_script_was_lost(folder: Folder) -> None:
    folder.started(1)
    assert folder.between("lost", 2) == "again 5"
    assert folder.last()["nodes"] == ["n1"]


def test_a_preempted_attempt_costs_nothing(folder: Folder) -> None:
    folder.started(1)
    folder.run.logs.joinpath("slurm-7.log").write_text(
        "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-02T10:00:00 DUE TO PREEMPTION ***\n"
    )
    assert folder.between("lost", 2) == "again 0"
    assert folder.last()["kind"] == "restarted"


def test_a_cancelled_run_stops(folder: Folder) -> None:
    folder.started(1)
    folder.run.cancel_request.write_text(json.dumps({}))
    (folder.run.logs / "1" / "train-0.exit").write_text("75\n")
    assert folder.between("0", 1) == "stop 75"
