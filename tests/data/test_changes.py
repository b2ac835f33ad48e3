"""Has the data of a run changed since? By content, not by the time of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.data import changes
from trainwright.data.changes import changed_sources
from trainwright.data.prepare import prepare
from trainwright.data.report import record
from trainwright.spec.model import RunSpec


@pytest.fixture
def known(
    make_spec: Callable[..., RunSpec], write_jsonl: Callable[..., Path], tmp_path: Path
) -> tuple[RunSpec, dict[str, Any], Path, list[Path]]:
    paths = [write_jsonl([{"text": f"{name} {n}"} for n in range(5)], f"{name}.jsonl") for name in "abc"]
    spec = make_spec(*paths[1:], eval_sources=[str(paths[0])])
    return spec, record(prepare(spec, tmp_path / "cache")), tmp_path / "cache", paths


def test_untouched_and_merely_touched_files_have_not_changed(
    known: tuple[RunSpec, dict[str, Any], Path, list[Path]],
) -> None:
    spec, told, cache, paths = known
    assert changed_sources(spec, told, cache) == []
    os.utime(paths[1], (1, 1))
    assert changed_sources(spec, told, cache) == []


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_source_that_changed_is_named(
    known: tuple[RunSpec, dict[str, Any], Path, list[Path]], number: int
) -> None:
    spec, told, cache, paths = known
    with paths[number].open("a") as handle:
        handle.write(json.dumps({"text": "more"}) + "\n")
    assert changed_sources(spec, told, cache) == [str(paths[number])]
    paths[number].unlink()
    assert changed_sources(spec, told, cache) == [str(paths[number])]


def test_much_data_that_was_touched_is_not_read_to_find_out(
    known: tuple[RunSpec, dict[str, Any], Path, list[Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, told, cache, paths = known
    monkeypatch.setattr(changes, "_QUICK_BYTES", 1)
    os.utime(paths[1], (1, 1))
    assert str(paths[1]) in changed_sources(spec, told, cache)
