"""Where a run stands and why, as a table over what Slurm and the run's folder say."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.runs.failures import Failure
from trainwright.targets.reasons import match
from trainwright.targets.slurm.queue import Job
from trainwright.targets.slurm.state import Snapshot, state_of

DONE = Job("1", "x.prepare", "COMPLETED", exit_code=0, ended=5.0)
WAITS = Job("3", "x.finish", "PENDING", "Dependency")
END = {"stage": "train", "code": 70, "saved": 4}


def train(state: str, reason: str = "", **fields: Any) -> Job:
    return Job("2", "x.train", state, reason, **fields)


def seen(job: Job | None, prepare: Job | None = DONE, finish: Job | None = WAITS, **fields: Any) -> Snapshot:
    return Snapshot("x-00000001", {"prepare": prepare, "train": job, "finish": finish}, attempt=1, **fields)


@pytest.mark.parametrize(
    ("snapshot", "phase", "id_", "words"),
    [
        (seen(train("PENDING", "Resources")), "PENDING", "slurm-resources", ""),
        (seen(train("PENDING", "Priority")), "PENDING", "slurm-priority", ""),
        (seen(train("PENDING", "NeverHeardOf")), "PENDING", "slurm-unknown", "NeverHeardOf"),
        (seen(train("PENDING")), "PENDING", "slurm-queued", "not looked at it yet"),
        (seen(train("PENDING", "BeginTime"), last_end={**END, "code": 75}, saved=4), "PENDING", "slurm-begin-time",
         "train saved its state and was queued again; saved at step 4"),
        (seen(train("CONFIGURING", nodes="n1")), "STARTING", "slurm-state-configuring", ""),
        (seen(WAITS, prepare=Job("1", "p", "RUNNING")), "STARTING", None, ""),
        (seen(train("RUNNING"), begun=("prepare",)), "STARTING", None, ""),
        (seen(train("RUNNING", nodes="n[1-2]"), begun=("train",)), "RUNNING", None, ""),
        (seen(train("RUNNING"), begun=("train",), last_end=END), "RUNNING", "slurm-restarted", "exit code 70"),
        (seen(train("COMPLETING"), begun=("train",)), "RUNNING", None, ""),
        (seen(train("COMPLETED"), finish=Job("3", "f", "COMPLETED")), "SUCCEEDED", None, ""),
        (seen(None, prepare=None, finish=Job("3", "f", "COMPLETED")), "SUCCEEDED", None, ""),
        (seen(None, prepare=None, finish=None, finished={"phase": "SUCCEEDED", "t": 9.0}), "SUCCEEDED", None, ""),
        (seen(None, prepare=None, finish=None, finished={"phase": "FAILED", "stage": "train", "code": 1, "t": 9.0}),
         "FAILED", "slurm-user-error", "exit code 1"),
        (seen(None, prepare=None, finish=None), "FAILED", "slurm-forgotten", "knows nothing"),
        (seen(train("NODE_FAIL"), saved=8), "FAILED", "slurm-state-nodefail", "saved at step 8"),
        (seen(train("OUT_OF_MEMORY")), "FAILED", "slurm-state-oom", ""),
        (seen(train("TIMEOUT")), "FAILED", "slurm-state-timeout", ""),
        (seen(train("PREEMPTED")), "FAILED", "slurm-state-preempted", ""),
        (seen(train("BOOT_FAIL")), "FAILED", "slurm-state-bootfail", ""),
        (seen(train("DEADLINE")), "FAILED", "slurm-state-deadline", ""),
        (seen(train("CANCELLED")), "CANCELLED", "slurm-state-cancelled", "was cancelled"),
        (seen(train("FAILED", exit_code=75), cancelled=True, saved=3), "CANCELLED", "slurm-cancelled",
         "saved at step 3"),
        (seen(train("FAILED", exit_code=0, signal=53)), "FAILED", "slurm-exit-io", ""),
        (seen(train("FAILED", exit_code=1)), "FAILED", "slurm-user-error", "train ended with exit code 1"),
        (seen(train("FAILED", exit_code=76)), "FAILED", "slurm-non-finite", "not finite"),
        (seen(train("FAILED", exit_code=77)), "FAILED", "slurm-hung-collective", "never finished"),
        (seen(train("FAILED", exit_code=75)), "FAILED", "slurm-saved", "not queued again"),
        (seen(train("FAILED", exit_code=137)), "FAILED", "slurm-crash", "SIGKILL"),
        (seen(train("FAILED", exit_code=1), failure=Failure("ValueError: x", "t.py:3", 1, "/l")), "FAILED",
         "slurm-user-error", "rank 1: ValueError: x (t.py:3)"),
        (seen(train("FAILED", exit_code=70), failure=Failure("Broken pipe", rank=0, echo=True)), "FAILED",
         "slurm-crash", "exit code 70"),
        (seen(train("FAILED", exit_code=137), failure=Failure("RuntimeError: x", rank=1),
              slurm_says=match("slurm", "srun: error: n2: task 1: Out Of Memory")), "FAILED",
         "slurm-log-srun-oom", ""),
        (seen(WAITS, prepare=Job("1", "p", "FAILED", exit_code=1)), "FAILED", "slurm-user-error", "prepare"),
        (seen(train("COMPLETED"), finish=Job("3", "f", "CANCELLED", "DependencyNeverSatisfied")), "FAILED",
         "slurm-dependency-never", ""),
    ],
)  # fmt: skip
def test_state(snapshot: Snapshot, phase: str, id_: str | None, words: str) -> None:
    state = state_of(snapshot)
    assert (state.phase, state.reason.id if state.reason else None) == (phase, id_)
    if words:
        assert words in str(state.reason)
    if state.phase in ("FAILED", "CANCELLED"):
        assert state.reason is not None
        assert "trainwright resume x-00000001" in state.reason.next_step


def test_a_library_whose_message_it_is_gives_the_class_and_the_next_step() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    state = state_of(seen(train("FAILED", exit_code=1), failure=Failure(text, "t.py:3", 0)))
    assert state.reason is not None
    assert text in state.reason.sentence
    assert state.rank == 0
