"""States in words."""

from __future__ import annotations

import pytest

from trainwright.runs.describe import age, describe, event_line, row, table
from trainwright.runs.state import JobState, Reason
from trainwright.runs.steps import Step

FAILED = JobState(
    "FAILED", Reason("x", "user-error", "rank 1: ValueError: bad.", "mend it", raw="log"), 1, "box", 2, 100.0
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (61, "1m 1s"), (3600, "1h"), (3725, "1h 2m"), (90000, "1d 1h"),
     (86460, "1d"), (-5, "0s")],
)  # fmt: skip
def test_an_age_is_two_units_and_never_negative(seconds: float, text: str) -> None:
    assert age(1000.0, 1000.0 + seconds) == text


def test_an_unknown_age_is_a_dash() -> None:
    assert age(None, 1.0) == age(float("nan"), 1.0) == "–"


def test_the_error_stands_on_top_and_the_way_out_below() -> None:
    assert describe("job", FAILED, Step(7, 1.25), 5, 160.0) == [
        "job  FAILED since 1m, attempt 2",
        "  rank 1: ValueError: bad.",
        "  next: mend it",
        "  from: log",
        "  step 7, loss 1.25, saved at step 5",
    ]
    assert describe("job", JobState("RUNNING"), None, None, 0.0) == ["job  RUNNING"]


def test_a_table_keeps_each_run_on_one_line() -> None:
    rows = [
        row("a", "local", FAILED, Step(7, 1.25), 160.0),
        row("long-name", "local", JobState("RUNNING"), None, 0.0),
    ]
    lines = table(rows, 72).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert lines[1].endswith("…")


def test_an_event_is_one_line_whatever_it_holds() -> None:
    event = {"v": 1, "t": 0, "run_id": "r", "attempt": 2, "rank": "s", "kind": "failed", "exception": "a\nb\x1b[2J"}
    assert event_line(event, "12:00") == "12:00  2  supervisor  failed      exception=a b [2J"
