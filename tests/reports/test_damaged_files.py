"""Whatever became of the files that a report reads, it costs what was spoiled and nothing else.

Every value of every kind of record is replaced in turn by others that JSON can hold.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import SystemUnreachable
from trainwright.evaluation import results
from trainwright.reports import figures
from trainwright.reports.compare_page import compare_page
from trainwright.reports.follow import Follower
from trainwright.reports.record import read_run
from trainwright.reports.run_page import run_page
from trainwright.reports.summary import summary_lines
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobState

Make = Callable[..., RunFolder]
pytest.importorskip("matplotlib")

_WRONG = ["x", "", None, [1], [], {"a": 1}, {}, -1, 1.5, 1e308, True, float("nan"), 10**30]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures take seconds and only draw the numbers that they are given."""
    for name in ("line_chart", "stacked_chart", "timeline", "bar_rows"):
        monkeypatch.setattr(figures, name, lambda *_: "")


def _read_everything(run: RunFolder) -> None:
    record = read_run(run)
    run_page(record)
    compare_page([record, record])
    follower = Follower(run)
    follower.lines(), follower.live(), follower.fraction()
    summary_lines(run, JobState("SUCCEEDED"))
    results.points(run.metrics)


def _places(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for name, child in inner:
        yield (*before, name)
        yield from _places(child, (*before, name))


def _spoiled(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record with each of its values replaced by each wrong one, and without each."""
    for place in _places(record):
        for wrong in [*_WRONG, KeyError]:
            changed = copy.deepcopy(record)
            holder = changed
            for name in place[:-1]:
                holder = holder[name]
            if wrong is KeyError:
                del holder[place[-1]]
            else:
                holder[place[-1]] = wrong
            yield changed


def _by_kind(path: Path) -> dict[str, dict[str, Any]]:
    return {record["kind"]: record for record in map(json.loads, path.read_text().splitlines())}


@pytest.mark.usefixtures("undrawn")
def test_a_spoiled_line_of_metrics_is_read_around(make_run: Make) -> None:
    run = make_run()
    kinds = _by_kind(run.metrics)
    for record in kinds.values():
        lines = [*kinds.values(), *_spoiled(record)]
        run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
        _read_everything(run)  # many wrong records at once: each of them alone would end a careless reader
    assert read_run(run).steps[-1]["step"] == kinds["step"]["step"]


@pytest.mark.usefixtures("undrawn")
def test_a_spoiled_event_is_read_around(make_run: Make) -> None:
    run = make_run()
    path = max(run.events.glob("*.jsonl"), key=lambda path: len(_by_kind(path)))
    kinds = _by_kind(path)
    path.write_text("".join(json.dumps(line) + "\n" for kind in kinds.values() for line in [kind, *_spoiled(kind)]))
    _read_everything(run)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", ["evaluation.json", "data.json"])
def test_a_spoiled_value_of_a_result_is_left_out(make_run: Make, name: str) -> None:
    run = make_run()
    path = run.root / name
    sound = json.loads(path.read_text())
    for changed in _spoiled(sound):
        path.write_text(json.dumps(changed))
        record = read_run(run)
        run_page(record)
        summary_lines(run, JobState("SUCCEEDED"))


@pytest.mark.usefixtures("undrawn")
def test_a_held_out_loss_that_was_not_finite_is_a_dash(make_run: Make) -> None:
    run = make_run()
    run.metrics.write_text(
        '{"kind": "eval", "step": 0, "eval_loss": 2.5}\n{"kind": "eval", "step": 4, "eval_loss": null}\n'
    )
    assert "Held-out loss" in run_page(read_run(run))


def test_a_folder_in_place_of_events_hides_no_other(make_run: Make) -> None:
    run = make_run()
    before = read_events(run.events)
    (run.events / "9-0.jsonl").mkdir()
    assert read_events(run.events) == before


def test_a_folder_in_place_of_metrics_is_named_and_the_end_is_told(make_run: Make) -> None:
    run = make_run()
    run.metrics.unlink()
    run.metrics.mkdir()
    with pytest.raises(SystemUnreachable, match=r"metrics\.jsonl cannot be read: Is a directory"):
        read_run(run)
    assert "SUCCEEDED" in summary_lines(run, JobState("SUCCEEDED"))[0]
