"""What a baseline knows is not told again; what is new is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.linter.baseline import without_known, write_baseline
from trainwright.linter.finding import Finding

FIRST = Finding("TW205", "accelerators", "error", "deploy/a.yaml", 10, 3, 10, 9, "nvidia.com/gpus", "why", "instead")
AGAIN = replace(FIRST, line=20, end_line=20)


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_baseline(tmp_path / "known.json", [FIRST])
    return tmp_path / "known.json"


def test_a_known_finding_is_left_out_wherever_its_line_moves(baseline: Path) -> None:
    assert without_known(baseline, [replace(FIRST, line=99, why="worded anew")]) == ([], 0)


def test_one_more_of_the_same_is_new(baseline: Path) -> None:
    assert without_known(baseline, [FIRST, AGAIN]) == ([AGAIN], 0)


def test_another_text_rule_or_file_is_new_and_the_old_one_gone(baseline: Path) -> None:
    for change in ({"quoted": "amd.com/gpus"}, {"rule": "TW301"}, {"path": "deploy/b.yaml"}):
        other = replace(FIRST, **change)  # type: ignore[arg-type]
        assert without_known(baseline, [other]) == ([other], 1)


def test_paths_are_those_of_the_project_not_of_the_caller(baseline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (baseline.parent / "deploy").mkdir()
    monkeypatch.chdir(baseline.parent / "deploy")
    assert without_known(baseline, [replace(FIRST, path="a.yaml")]) == ([], 0)
    assert without_known(baseline, [replace(FIRST, path=str(baseline.parent / "deploy" / "a.yaml"))]) == ([], 0)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 9, "findings": []}', '{"version": 1, "findings": [1]}']
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.json").write_text(text)
    with pytest.raises(InputError):
        without_known(tmp_path / "known.json", [])


def test_a_missing_baseline_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="write-baseline"):
        without_known(tmp_path / "missing.json", [])
