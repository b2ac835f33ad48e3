"""job.json reads back, whatever is wrong with it is None, and one lock is held once."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import RunFolder
from trainwright.targets.local.policy import Used
from trainwright.targets.local.process import ProcessId
from trainwright.targets.local.record import (
    JobRecord,
    read_record,
    read_signature,
    sign_lock,
    take_lock,
    write_record,
)

SUPERVISOR = ProcessId(pid=4321, started=99, boot="boot", space=1, host="box")
RECORD = JobRecord(
    SUPERVISOR, "mark", 3, "train", 1.5, "FAILED", "failed", -9, True, "why", ("prepare",), ("report",),
    Used(1, 2, 3, 4), "/a b",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_a_record_reads_back(run: RunFolder) -> None:
    write_record(run, RECORD)
    assert read_record(run) == RECORD
    bare = replace(RECORD, stage=None, ended=None, code=None)
    write_record(run, bare)
    assert read_record(run) == bare


def damages() -> list[bytes]:
    whole = json.dumps(RECORD.to_dict())
    values: list[dict[str, Any]] = [
        {**RECORD.to_dict(), name: wrong}
        for name, wrong in [
            ("supervisor", None), ("supervisor", {"pid": 1}), ("attempt", "x"), ("attempt", None), ("since", []),
            ("phase", "RUNING"), ("phase", []), ("ended", "maybe"), ("code", "x"), ("used", {"user": 1, "x": 2}),
            ("used", 3), ("completed", 7), ("mark", ""), ("attempt", 1e999),
        ]
    ]  # fmt: skip
    missing = [
        {k: v for k, v in RECORD.to_dict().items() if k != name}
        for name in RECORD.to_dict()
        if name not in ("v", "target")
    ]
    texts = [
        "",
        "{}",
        "[]",
        "null",
        "\0" * 100,
        whole[:-1],
        whole[: len(whole) // 2],
        *map(json.dumps, values + missing),
    ]
    return [text.encode() for text in texts] + [b"\xff\xfe" + whole.encode()]


@pytest.mark.parametrize("content", damages())
def test_a_damaged_record_is_none_and_never_an_error(run: RunFolder, content: bytes) -> None:
    run.job_file.write_bytes(content)
    assert read_record(run) is None


def test_the_lock_is_held_once_and_free_when_its_last_holder_closes_it(run: RunFolder) -> None:
    first = take_lock(run)
    assert first is not None
    assert take_lock(run) is None
    inherited = os.dup(first)
    os.close(first)
    assert take_lock(run) is None, "a supervisor that has inherited the lock still holds it"
    os.close(inherited)
    again = take_lock(run)
    assert again is not None
    os.close(again)


def test_the_lock_names_its_holder(run: RunFolder) -> None:
    lock = take_lock(run)
    assert lock is not None
    assert read_signature(run) is None
    sign_lock(lock, replace(SUPERVISOR, host="a much longer name than before"), "one")
    sign_lock(lock, SUPERVISOR, "two")
    assert read_signature(run) == (SUPERVISOR, "two")
    os.close(lock)


def test_a_folder_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(SystemUnreachable, match=r"cannot be written.*TRAINWRIGHT_RUNS"):
        take_lock(RunFolder(tmp_path / "nothing"))
