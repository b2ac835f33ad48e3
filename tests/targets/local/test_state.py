"""Where a run stands, as a function of what was read: every row of the table is one situation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trainwright.runs.failures import Failure
from trainwright.targets.local.policy import Used
from trainwright.targets.local.process import ProcessId
from trainwright.targets.local.record import JobRecord
from trainwright.targets.local.state import Snapshot, state_of

SUPERVISOR = ProcessId(pid=4321, started=99, boot="boot", space=1, host="box")
RECORD = JobRecord(SUPERVISOR, mark="m", attempt=2, stage="train", since=100.0, phase="RUNNING")
SEEN = Snapshot("job-0a1b2c3d", submitted=True, record=RECORD, supervisor=SUPERVISOR, alive="alive")
FAILURE = Failure("ValueError: bad batch", "train.py:12", 3, "rank-3.log")


def seen(record: dict[str, Any] | None = None, **changes: Any) -> Snapshot:
    return replace(SEEN, record=replace(RECORD, **(record or {})), **changes)


def failed(code: int, **record: Any) -> dict[str, Any]:
    return {"phase": "FAILED", "ended": "failed", "code": code, **record}


@pytest.mark.parametrize(
    ("snapshot", "phase", "reason", "class_"),
    [
        (Snapshot("job-0a1b2c3d", submitted=False), "PENDING", "local-not-submitted", "dependency"),
        (seen({"phase": "STARTING", "stage": "prepare"}), "STARTING", None, None),
        (seen(), "RUNNING", None, None),
        (seen({"code": -11}), "RUNNING", "local-restarted", "unknown"),
        (seen({"phase": "SUCCEEDED", "ended": "finished"}, alive="dead"), "SUCCEEDED", None, None),
        (seen({"phase": "SUCCEEDED", "ended": "finished", "warnings": ("report",)}, alive="dead"),
         "SUCCEEDED", "local-incomplete", "unknown"),
        (seen({"phase": "CANCELLED", "ended": "cancelled", "code": 75}, alive="dead"),
         "CANCELLED", "local-cancelled", "unknown"),
        (seen({"phase": "FAILED", "ended": "stopped", "code": 75}, alive="dead"),
         "FAILED", "local-stopped", "preempted"),
        (seen({"phase": "FAILED", "ended": "broken", "detail": "x"}, alive="dead"),
         "FAILED", "local-broken", "config"),
        (seen(alive="dead"), "FAILED", "local-supervisor-gone", "node-lost"),
        (seen(alive="dead", disk_full=True), "FAILED", "local-disk-full", "volume"),
        (seen(disk_full=True), "RUNNING", "local-disk-full", "volume"),
        (seen(alive="elsewhere"), "RUNNING", "local-elsewhere", "unknown"),
        (seen(failed(1), alive="dead"), "FAILED", "local-user-error", "user-error"),
        (seen(failed(2, stage="prepare"), alive="dead"), "FAILED", "local-user-error", "user-error"),
        (seen(failed(76), alive="dead"), "FAILED", "local-non-finite", "user-error"),
        (seen(failed(77), alive="dead"), "FAILED", "local-hung-collective", "timeout"),
        (seen(failed(-9), alive="dead"), "FAILED", "local-killed", "unknown"),
        (seen(failed(137), alive="dead"), "FAILED", "local-killed", "unknown"),
        (seen(failed(-9, oom=True), alive="dead"), "FAILED", "local-oom", "oom"),
        (seen(failed(-11), alive="dead"), "FAILED", "local-crash", "unknown"),
        (seen(failed(3), alive="dead"), "FAILED", "local-crash", "unknown"),
        (replace(SEEN, record=None), "RUNNING", "local-unreadable", "volume"),
        (replace(SEEN, record=None, alive="dead"), "FAILED", "local-unreadable", "volume"),
        (replace(SEEN, record=None, alive=None, supervisor=None), "FAILED", "local-unreadable", "volume"),
    ],
)  # fmt: skip
def test_state(snapshot: Snapshot, phase: str, reason: str | None, class_: str | None) -> None:
    state = state_of(snapshot)
    assert state.phase == phase
    assert (state.reason.id if state.reason else None) == reason
    assert (state.reason.class_ if state.reason else None) == class_
    if state.reason is not None:
        assert state.reason.sentence.endswith(".")
        assert state.reason.next_step, "every reason says the way out"


def test_the_first_failing_rank_stands_on_top_with_its_place() -> None:
    state = state_of(seen(failed(1), alive="dead", failure=FAILURE))
    assert (state.rank, state.node, state.attempt) == (3, "box", 2)
    assert state.reason is not None
    assert state.reason.sentence == "rank 3: ValueError: bad batch (train.py:12)."
    assert state.reason.raw == "train ended with exit code 1; rank-3.log"


def test_a_lost_supervisor_says_what_is_saved_and_how_to_go_on() -> None:
    state = state_of(seen(alive="dead", saved=40))
    assert state.reason is not None
    assert "4321" in state.reason.sentence
    assert "saved at step 40" in state.reason.sentence
    assert state.reason.next_step == "trainwright resume job-0a1b2c3d"


def test_a_kill_for_memory_outranks_what_the_log_says() -> None:
    state = state_of(seen(failed(-9, oom=True), alive="dead", failure=FAILURE))
    assert state.reason is not None
    assert "memory ran out" in state.reason.sentence


def test_only_what_lives_or_waits_is_not_final() -> None:
    assert not state_of(SEEN).final
    assert state_of(seen(alive="dead")).final


def test_a_script_that_always_asks_to_be_started_again_is_told_in_our_words() -> None:
    state = state_of(seen(failed(75, used=Used(idle_resumes=5)), alive="dead", failure=FAILURE))
    assert state.reason is not None
    assert state.reason.id == "local-idle-resumes"
    assert state.reason.sentence.startswith("train asked 6 times in a row to be started again (exit code 75)")
    assert "bad batch" in state.reason.raw
