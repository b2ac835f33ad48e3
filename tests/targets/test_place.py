"""Which folder a run has, whatever else lies beside it; and what stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.runs.folder import RunFolder
from trainwright.runs.state import Reason, ended
from trainwright.targets.place import asked_for, last_attempt, names, run_of


def folder(runs: Path, name: str) -> Path:
    (runs / name).mkdir(parents=True)
    return runs / name


def test_copies_and_files_beside_runs_are_none(tmp_path: Path) -> None:
    for name in ("x-00000000", "x-00000000.2", "x-00000000.bak", "data", "x-00000000.2.old"):
        folder(tmp_path, name)
    (tmp_path / "x-00000000.3").write_text("a file")
    assert names(tmp_path) == {"x-00000000", "x-00000000.2"}
    assert run_of(tmp_path, "x-00000000", fresh=False).run_id == "x-00000000.2"
    assert run_of(tmp_path, "x-00000000", fresh=True).run_id == "x-00000000.3"
    assert names(tmp_path / "none") == set()


def test_the_folder_that_a_user_means(tmp_path: Path) -> None:
    bundle = folder(tmp_path, "x-00000000/bundle")
    assert asked_for(bundle, "x-00000000", None) == tmp_path
    assert asked_for(bundle, "x-00000000", tmp_path / "other") == tmp_path / "other"
    assert asked_for(bundle, "y-00000000", None) is None


def test_attempts_are_counted_by_logs_and_events(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "x-00000000")
    assert last_attempt(run) == 0
    for name in ("1", "2", "notes", "²"):
        folder(run.logs, name)
    assert last_attempt(run) == 2
    assert last_attempt(run, [{"attempt": 5}, {"attempt": "7"}, {}]) == 5


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("gone", "gone."), ("gone.", "gone."), ("gone...", "gone."), ("did you mean x?", "did you mean x?"),
     ("cut …", "cut …"), ("", "")],
)  # fmt: skip
def test_a_sentence_has_one_end(text: str, sentence: str) -> None:
    assert ended(text) == sentence
    assert Reason.told("x", "unknown", text).sentence == sentence
