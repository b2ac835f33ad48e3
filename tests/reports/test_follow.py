"""Following a run from its files: every event once, in order of time, whatever is torn or missing."""

from __future__ import annotations

import json
from pathlib import Path

from trainwright.reports.follow import Follower
from trainwright.reports.words import amount, bytes_, duration, number
from trainwright.runs import jsonl
from trainwright.runs.folder import RunFolder


def run_folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "a-00000000")
    folder.events.mkdir(parents=True)
    return folder


def step(number: int, t: float) -> dict[str, object]:
    return {"t": t, "kind": "step", "step": number, "loss": 2.5, "lr": 1e-4, "tokens_per_s": 1012.3, "seconds": 2.0,
            "memory_bytes": 2**31, "mfu": None}  # fmt: skip


def test_steps_evaluations_and_events_are_told_once_in_order(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    follower = Follower(folder)
    assert follower.lines() == []
    jsonl.append(folder.events / "1-s.jsonl", {"t": 1.0, "kind": "started", "rank": "s", "stage": "train"})
    jsonl.append(folder.events / "1-0.jsonl", {"t": 2.0, "kind": "started", "rank": 0, "steps": 10})
    jsonl.append(folder.metrics, {"t": 3.0, "kind": "eval", "step": 0, "eval_loss": 2.4113, "perplexity": 11.15})
    jsonl.append(folder.metrics, step(1, 4.0))
    jsonl.append(folder.events / "1-0.jsonl", {"t": 5.0, "kind": "saved", "rank": 0, "step": 1, "bytes": 2**20})
    jsonl.append(folder.events / "1-1.jsonl", {"t": 5.0, "kind": "saved", "rank": 1, "step": 1, "bytes": 2**20})
    assert follower.lines() == [
        "train …",
        "  step 0: held-out loss 2.4113, perplexity 11.15",
        "  step 1/10  loss 2.5  lr 0.0001  1,012 tokens/s  2.0 GiB  18s left",
        "  checkpoint 1 saved (1.0 MiB)",
    ]
    assert follower.lines() == []
    assert follower.live() == "18s left"
    assert follower.fraction() == 0.1
    assert follower.waiting() == ""


def test_a_line_that_is_still_being_written_is_told_when_it_is_whole(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    follower = Follower(folder)
    text = json.dumps(step(7, 1.0)) + "\n"
    folder.metrics.write_text(text[:20])
    assert follower.lines() == []
    with folder.metrics.open("a") as handle:
        handle.write(text[20:] + "\x00garbage\n[1]\n")
    assert [line.split("  ")[1] for line in follower.lines()] == ["step 7"]


def test_a_stage_without_lines_of_its_own_tells_how_far_it_is(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    follower = Follower(folder)
    assert follower.live() == ""
    folder.progress.write_text('{"what": "tokenise", "done": 5, "total": 20, "seconds": 10}')
    assert follower.live() == "tokenise 5/20, 30s left"
    folder.progress.write_text('{"what": "tokenise"}')
    assert follower.waiting() == ""


def test_failures_name_the_rank_and_what_it_said(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    jsonl.append(folder.events / "1-3.jsonl", {"t": "late", "kind": "failed", "rank": 3, "exception": "boom"})
    jsonl.append(folder.events / "1-s.jsonl", {"t": 2.0, "kind": "failed", "rank": "s", "stage": "finish", "code": 1})
    assert Follower(folder).lines() == ["  failed on rank 3: boom", "  failed on finish: exit code 1"]


def test_numbers_are_written_as_people_read_them() -> None:
    assert [duration(s) for s in (0.5, 8, 59.6, 125, 7500, 360000, None)] == [
        "0.5s", "8s", "1m00s", "2m05s", "2h05m", "4d04h", "–",
    ]  # fmt: skip
    assert [bytes_(b) for b in (5, 2**31, None)] == ["5 B", "2.0 GiB", "–"]
    assert [amount(a) for a in (3.21, 1012.3, 1.2e6, float("nan"))] == ["3.21", "1,012", "1.2 M", "–"]
    assert [number(n) for n in (2.5, 0.0001, 12345.6, None)] == ["2.5", "0.0001", "1.235e+04", "–"]


def test_one_long_step_does_not_lengthen_the_rest(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    follower = Follower(folder)
    jsonl.append(folder.events / "1-0.jsonl", {"t": 0.0, "kind": "started", "rank": 0, "steps": 10})
    for number_ in range(1, 5):
        jsonl.append(folder.metrics, step(number_, float(number_)))
    jsonl.append(folder.metrics, {**step(5, 90.0), "seconds": 80.0})  # an evaluation was in between
    assert follower.lines()[-1].endswith("  10s left")


def test_a_failure_of_an_earlier_attempt_does_not_look_new(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    for attempt in (1, 2):
        event = {"t": 1.0, "kind": "failed", "rank": "s", "stage": "prepare", "exception": "no file"}
        event["attempt"] = attempt
        jsonl.append(folder.events / f"{attempt}-s.jsonl", event)
    assert Follower(folder, attempt=2).lines() == [
        "  earlier, in attempt 1, failed on prepare: no file", "  failed on prepare: no file"
    ]  # fmt: skip


def test_a_signal_that_the_supervisor_passes_on_is_told_once(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    for rank in ("s", 0):
        event = {"t": 1.0, "kind": "signal", "rank": rank, "attempt": 1, "signal": "SIGTERM"}
        jsonl.append(folder.events / f"1-{rank}.jsonl", event)
    assert len(Follower(folder).lines()) == 1
