"""The cases written after public reports: the named rule fires, at the expected severity or above, and what is right
stays silent."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from trainwright.linter.engine import Options, lint_texts
from trainwright.linter.finding import Finding

CASES = Path(__file__).parent / "cases"
MORE = CASES / "more"
"""Written to measure the rules after they were written: other values, other front-ends, other words."""
RANK = {"note": 0, "warn": 1, "warning": 1, "error": 2}


def rows(folder: Path = CASES) -> list[dict[str, str]]:
    with (folder / "expected.tsv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


def findings(name: str, folder: Path = CASES) -> list[Finding]:
    return lint_texts({name: (folder / name).read_text("utf-8")}, Options(strict=True))


@pytest.mark.parametrize(
    ("name", "rule", "severity"), [(r["case_file"], r["rule"], r["severity"]) for r in rows() if r["rule"]]
)
def test_the_described_defect_is_found(name: str, rule: str, severity: str) -> None:
    found = [f for f in findings(name) if f.rule in rule.split("|")]
    assert found, f"{rule} did not fire"
    assert max(RANK[f.severity] for f in found) >= RANK[severity]


@pytest.mark.parametrize(
    ("name", "rule", "severity"), [(r["case_file"], r["rule"], r["severity"]) for r in rows(MORE)]
)
def test_the_same_defect_is_found_in_other_words(name: str, rule: str, severity: str) -> None:
    found = [f for f in findings(name, MORE) if f.rule == rule]
    assert found, f"{rule} did not fire"
    assert max(RANK[f.severity] for f in found) >= RANK[severity]


@pytest.mark.parametrize("name", [r["case_file"] for r in rows() if r["severity"] == "none"])
def test_a_correct_near_miss_has_no_error(name: str) -> None:
    assert [f for f in findings(name) if f.severity == "error"] == []


@pytest.mark.parametrize("name", [r["case_file"] for r in rows() if r["severity"] == "warn" and r["rule"]])
def test_a_warning_case_has_no_error_it_does_not_deserve(name: str) -> None:
    expected = next(r["rule"].split("|") for r in rows() if r["case_file"] == name)
    assert [f for f in findings(name) if f.severity == "error" and f.rule not in expected] == []


def test_every_case_is_listed() -> None:
    for folder in (CASES, MORE):
        assert {r["case_file"] for r in rows(folder)} == {p.name for p in folder.iterdir() if p.is_file()} - {
            "expected.tsv"
        }
