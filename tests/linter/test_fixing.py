"""Corrections change what they must and nothing else; a file that moved on or would break is left alone."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.linter import fixing
from trainwright.linter.engine import Options, lint_texts
from trainwright.linter.files import load_files, read_source
from trainwright.linter.finding import Edit
from trainwright.linter.pages import examples
from trainwright.linter.rules import RULES

POD = """\
# a comment that stays
apiVersion:   v1
kind: Pod
metadata: {name: train}   # odd   layout
spec:
    containers:
        -   name: 'train'
            image: example.com/train:1
            resources:
                limits:
                    nvidia.com/gpus:  8  # one whole machine
"""
ONLY = Options(select=["TW205", "TW0"], strict=True)


def fixable() -> list[tuple[str, int]]:
    found = []
    for rule in RULES:
        for number, example in enumerate(examples(rule)):
            options = Options(select=[rule], versions=example.versions)
            if example.label == "bad" and any(f.fix for f in lint_texts(example.texts, options)):
                found.append((rule, number))
    return found


FIXABLE = fixable()


def test_at_least_five_rules_correct_what_they_find() -> None:
    assert len({rule for rule, _ in FIXABLE}) >= 5


@pytest.mark.parametrize(("rule", "number"), FIXABLE)
def test_a_correction_leaves_nothing_of_its_rule_to_correct_and_breaks_nothing(rule: str, number: int) -> None:
    example = examples(rule)[number]
    options = Options(select=[rule, "TW0"], versions=example.versions, strict=True)
    files = [read_source(name, text) for name, text in example.texts.items()]
    before = lint_texts(example.texts, options)
    changes, left = fixing.correct(files, options)
    assert changes
    assert not [f for f in left if f.fix]
    assert len(left) < len(before)
    for change in changes:
        old, new = change.before.splitlines(), change.after.splitlines()
        assert sum(a != b for a, b in zip(old, new, strict=True)) <= len(before) * 2


def corrected(tmp_path: Path, data: bytes, name: str = "pod.yaml") -> bytes:
    path = tmp_path / name
    path.write_bytes(data)
    changes, _ = fixing.correct(list(load_files([path])), ONLY)
    fixing.write(changes)
    return path.read_bytes()


@pytest.mark.parametrize("form", ["plain", "crlf", "bom"])
def test_comments_layout_line_ends_and_marks_stay(tmp_path: Path, form: str) -> None:
    data = POD.encode()
    if form == "crlf":
        data = data.replace(b"\n", b"\r\n")
    if form == "bom":
        data = b"\xef\xbb\xbf" + data
    assert corrected(tmp_path, data) == data.replace(b"nvidia.com/gpus:", b"nvidia.com/gpu:")


def test_embedded_snippets_are_corrected_where_they_stand(tmp_path: Path) -> None:
    text = f"# Guide\n\n> quoted\n\n```yaml\n{POD}```\n\nThe end: nvidia.com/gpus\n"
    assert corrected(tmp_path, text.encode(), "guide.md").decode() == text.replace("gpus:  8", "gpu:  8")


def test_nothing_is_written_when_there_is_nothing_to_correct(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD.replace("gpus", "gpu"))
    assert fixing.correct(list(load_files([path])), ONLY)[0] == []


def test_a_suppressed_finding_is_not_corrected(tmp_path: Path) -> None:
    data = POD.replace("# one whole machine", "# trainwright: ignore[TW205] ours").encode()
    assert corrected(tmp_path, data) == data


def test_a_correction_that_would_repeat_a_key_is_taken_back(tmp_path: Path) -> None:
    data = POD.replace(
        "                    nvidia", "                    nvidia.com/gpu: 8\n                    nvidia"
    ).encode()
    assert corrected(tmp_path, data) == data


def test_words_of_a_template_are_never_replaced(tmp_path: Path) -> None:
    data = POD.replace("train:1", "train:{{ .tag }}").encode()
    assert corrected(tmp_path, data) == data.replace(b"nvidia.com/gpus:", b"nvidia.com/gpu:")


def test_a_file_that_changed_in_between_is_refused_at_both_moments(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    files = list(load_files([path]))
    changes, _ = fixing.correct(files, ONLY)
    path.write_text(POD + "# edited meanwhile\n")
    with pytest.raises(InputError, match="changed since"):
        fixing.write(changes)
    with pytest.raises(InputError, match="changed since"):
        fixing.correct(files, ONLY)
    assert path.read_text() == POD + "# edited meanwhile\n"


def test_links_and_modes_stay_and_no_scrap_is_left(tmp_path: Path) -> None:
    path, link = tmp_path / "pod.yaml", tmp_path / "link.yaml"
    path.write_text(POD)
    path.chmod(0o640)
    link.symlink_to("pod.yaml")
    fixing.write(fixing.correct(list(load_files([link])), ONLY)[0])
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert "nvidia.com/gpu:" in path.read_text()
    assert sorted(os.listdir(tmp_path)) == ["link.yaml", "pod.yaml"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    changes, _ = fixing.correct(list(load_files([path])), ONLY)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left"):
        fixing.write(changes)
    assert path.read_text() == POD
    assert os.listdir(tmp_path) == ["pod.yaml"]


def test_the_diff_can_be_applied_by_anybody(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    text = fixing.show(fixing.correct(list(load_files([path])), ONLY)[0])
    assert text.count("\n-") == text.count("\n+") - 1 == 1  # one line, beside the header
    assert "-                    nvidia.com/gpus:  8  # one whole machine\n" in text
    assert "+                    nvidia.com/gpu:  8  # one whole machine\n" in text


def test_edits_are_applied_from_the_end_and_may_touch_but_not_overlap() -> None:
    edits = [Edit(1, 1, 1, 3, "X"), Edit(1, 3, 1, 4, ""), Edit(2, 1, 2, 1, "new\n")]
    assert fixing.apply_edits("abcd\nefgh\n", edits) == "Xd\nnew\nefgh\n"
    overlapping = [Edit(1, 1, 1, 3, ""), Edit(1, 2, 1, 4, ""), Edit(1, 2, 1, 2, "")]
    assert all(fixing._overlap(a, b) and fixing._overlap(b, a) for a, b in combinations(overlapping, 2))
    assert not fixing._overlap(edits[0], edits[1])
