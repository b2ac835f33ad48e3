"""Files of a run survive crashes: torn lines are skipped, small files are replaced whole."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from trainwright.errors import InputError
from trainwright.runs import folder as folders
from trainwright.runs import jsonl
from trainwright.runs.events import EventLog, read_events
from trainwright.runs.state import JobRef


def test_torn_and_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    jsonl.append(path, {"a": 1})
    with path.open("ab") as handle:
        handle.write(b'\xff\xfe\n[1]\n{"torn": ')
    assert list(jsonl.read(path)) == [{"a": 1}]
    assert list(jsonl.read(tmp_path / "missing")) == []


def test_a_line_cut_off_by_a_full_disk_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    jsonl.append(path, {"a": 1})
    with path.open("ab") as handle:
        handle.write(b'{"torn": ')
    jsonl.append(path, {"b": 2})
    jsonl.append(path, {"c": 3})
    assert list(jsonl.read(path)) == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_a_short_write_is_gone_on_with_and_a_refused_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "x.jsonl", os.write
    monkeypatch.setattr(jsonl.os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    jsonl.append(path, {"a": 1})
    room = [5]

    def full(descriptor: int, data: bytes) -> int:
        taken, room[0] = data[: room[0]], 0
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, taken)

    monkeypatch.setattr(jsonl.os, "write", full)
    with pytest.raises(OSError, match="No space"):
        jsonl.append(path, {"b": 2})
    monkeypatch.undo()
    jsonl.append(path, {"c": 3})
    assert list(jsonl.read(path)) == [{"a": 1}, {"c": 3}]


def _append_many(path: Path, writer: int) -> None:
    for number in range(200):
        jsonl.append(path, {"writer": writer, "number": number, "text": "x" * 500})


def test_lines_of_several_processes_never_interleave(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    processes = [multiprocessing.Process(target=_append_many, args=(path, writer)) for writer in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    records = list(jsonl.read(path))
    assert len(records) == 800
    assert {(r["writer"], r["number"]) for r in records} == {(w, n) for w in range(4) for n in range(200)}


def test_events_of_all_ranks_come_back_in_order_of_time(tmp_path: Path) -> None:
    EventLog(tmp_path, "r-00000000", 0, 1).write("started")
    EventLog(tmp_path, "r-00000000", 0, 0).write("failed", exception="boom")
    EventLog(tmp_path, "r-00000000", 1, "s").write("restarted", line="é\n")
    found = read_events(tmp_path)
    assert [(e["kind"], e["rank"], e["attempt"]) for e in found] == [
        ("started", 1, 0), ("failed", 0, 0), ("restarted", "s", 1),
    ]  # fmt: skip
    assert all(e["v"] == 1 and e["run_id"] == "r-00000000" for e in found)


def test_a_small_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    folders.write_atomically(path, "old")

    def fail(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(folders.os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            folders.write_atomically(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def make_run(runs: Path, name: str) -> None:
    (runs / name).mkdir(parents=True)
    (runs / name / "spec.yaml").write_text("{}")


def test_a_run_is_found_by_id_prefix_folder_or_as_the_newest(tmp_path: Path) -> None:
    make_run(tmp_path, "aa-00000000")
    make_run(tmp_path, "ab-00000000")
    make_run(tmp_path, "ab-00000000.2")
    assert folders.find("aa", tmp_path).run_id == "aa-00000000"
    assert folders.find("ab", tmp_path).run_id == "ab-00000000.2"
    assert folders.find("ab-00000000", tmp_path).run_id == "ab-00000000"
    assert folders.find(str(tmp_path / "aa-00000000")).run_id == "aa-00000000"
    assert folders.find(None, tmp_path).run_id == "ab-00000000.2"
    make_run(tmp_path, "ab-2-00000000")
    make_run(tmp_path, "ab-ffffffff")
    assert folders.find("ab", tmp_path).run_id == "ab-ffffffff", "a whole name, of several runs the newest"
    with pytest.raises(InputError, match="fits aa-00000000, ab-00000000"):
        folders.find("a", tmp_path)
    with pytest.raises(InputError, match="did you mean aa-00000000"):
        folders.find("aa-000000001", tmp_path)
    with pytest.raises(InputError, match="holds no runs"):
        folders.find(None, tmp_path / "nothing")


@pytest.mark.parametrize("parts", [("run-1",), ("arn:aws:eks:eu-west-1:1:cluster/x", "ns", "MPIJob", "a%b é")])
def test_a_job_reference_reads_back_whatever_its_parts_hold(parts: tuple[str, ...]) -> None:
    ref = JobRef("k8s", parts)
    assert JobRef.parse(str(ref)) == ref
    assert str(ref).count("/") == 2 + len(parts) - 1


@pytest.mark.parametrize("text", ["", "x", "://a", "a b://c", "k8s://"])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        JobRef.parse(text)


@pytest.mark.parametrize("content", ["", "[]", "{", "\x00", json.dumps({"ok": 1})])
def test_a_damaged_json_file_reads_as_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "x").write_text(content)
    assert folders.read_json(tmp_path / "x") == ({"ok": 1} if "ok" in content else None)
