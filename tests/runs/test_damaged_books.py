"""Events and metrics that a crash, a bug or a person spoiled are skipped; what is sound around them is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, find, read_json
from trainwright.runs.steps import last_step

_SPOILED = ["[" * 20_000, '{"kind": ["x"], "t": 1}', '{"kind": null}', '{"kind": "step", "t": ' + "9" * 400 + "}"]


def test_spoiled_events_are_skipped(tmp_path: Path) -> None:
    sound = json.dumps({"kind": "saved", "t": 2.0, "step": 4})
    (tmp_path / "1-0.jsonl").write_text("\n".join([*_SPOILED, '{"kind": "step", "t": NaN}', sound]))
    assert [event["kind"] for event in read_events(tmp_path)] == ["step", "saved"]


@pytest.mark.parametrize("time", ["1e18", "-1e300", "Infinity", "NaN", '"x"', "[]", "null"])
def test_an_event_at_no_time_of_a_clock_is_shown_first(tmp_path: Path, time: str) -> None:
    (tmp_path / "1-0.jsonl").write_text('{"kind": "saved", "t": 2.5}\n{"kind": "step", "t": ' + time + "}\n")
    assert [(event["kind"], event["t"]) for event in read_events(tmp_path)] == [("step", 0.0), ("saved", 2.5)]


@pytest.mark.parametrize("last", [*_SPOILED, '{"kind": "step", "step": true}'])
def test_the_last_sound_step_is_found_behind_spoiled_lines(tmp_path: Path, last: str) -> None:
    run = RunFolder(tmp_path)
    run.metrics.write_text('{"kind": "step", "step": 3, "loss": 1.5}\n' + last)
    step = last_step(run)
    assert step is not None
    assert (step.step, step.loss) == (3, 1.5)


def test_a_file_nested_without_end_holds_no_object(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"a":' * 100_000)
    assert read_json(tmp_path / "job.json") is None


def test_a_name_longer_than_names_can_be_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "a-01234567").mkdir()
    (tmp_path / "a-01234567" / "spec.yaml").touch()
    with pytest.raises(InputError, match="no such run"):
        find("x" * 5000, tmp_path)
