"""A finished run that is asked for again is reported; that its data has changed since is said, and how to use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from trainwright.cli.following import follow_to_the_end
from trainwright.cli.output import Output
from trainwright.data.run_inputs import prepare_run
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import silent
from trainwright.runs.state import JobState
from trainwright.spec.model import RunSpec
from trainwright.spec.write import spec_to_yaml


@pytest.fixture
def finished(make_spec: Callable[..., RunSpec], write_jsonl: Callable[..., Path], tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "runs" / "t-01234567")
    run.root.mkdir(parents=True)
    run.spec_file.write_text(spec_to_yaml(make_spec(write_jsonl([{"text": f"row {n}"} for n in range(9)]))))
    prepare_run(run, silent)
    return run


def reported(run: RunFolder, output: Output, capsys: pytest.CaptureFixture[str]) -> str:
    target: Any = SimpleNamespace(folder=lambda ref: run, status=lambda ref: JobState("SUCCEEDED"))
    with pytest.raises(typer.Exit):
        follow_to_the_end(target, None, output)
    return capsys.readouterr().out


def test_data_that_changed_since_is_told(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "changed since" not in reported(finished, Output.text, capsys)
    rows = tmp_path / "rows.jsonl"
    rows.write_text(rows.read_text() + '{"text": "one more"}\n')
    told = reported(finished, Output.text, capsys)
    assert f"the data changed since ({rows}): --fresh trains on it" in told
    assert told.splitlines()[-1].startswith("next"), "the command to try next stays the last line"
    assert json.loads(reported(finished, Output.json, capsys))["changed_sources"] == [str(rows)]


def test_nothing_is_said_where_the_data_was_prepared_elsewhere(
    finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = json.loads(finished.data.read_text())
    finished.data.write_text(json.dumps({**values, "folder": "/not/here"}))
    (tmp_path / "rows.jsonl").unlink()
    assert "changed since" not in reported(finished, Output.text, capsys)
