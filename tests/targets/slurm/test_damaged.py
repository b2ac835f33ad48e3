"""Books of a run that a crash, a bug or a person spoiled: every verb answers or says what is wrong."""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_fakes import Here

from trainwright.errors import TrainwrightError
from trainwright.runs.folder import RunFolder
from trainwright.targets.slurm.hosts import expand
from trainwright.targets.slurm.record import JobRecord, current_jobs, read_record, sound_events

SPOILED: list[Any] = [None, "x", "", [], {}, -1, 1e400, True, 10**30, ["n1", None], "n[" + "0" * 30 + "-9]"]
SUPERVISOR: dict[str, Any] = {"v": 1, "run_id": "r", "attempt": 1, "rank": "s", "stage": "train"}
EVENTS: list[dict[str, Any]] = [
    {**SUPERVISOR, "t": 5e9, "kind": "started", "job": "101", "nodes": "n[1-2]"},
    {**SUPERVISOR, "t": 5.1e9, "kind": "failed", "code": 70, "class": "infrastructure", "saved": 4, "nodes": ["n1"]},
    {**SUPERVISOR, "t": 5.2e9, "kind": "restarted", "attempt": 2, "job": "101", "exclude": "n1"},
    {**SUPERVISOR, "t": 5.2e9, "kind": "failed", "attempt": 2, "rank": 0, "code": 70, "exception": "x", "line": ""},
    {**SUPERVISOR, "t": 5.3e9, "kind": "finished", "attempt": 2, "phase": "FAILED", "code": 70},
]


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside of one."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(value[key], (*at, key))


def spoiled(whole: Any, at: tuple[Any, ...], by: Any) -> Any:
    """A copy with another value at one place; ``del`` takes it away."""
    made = copy.deepcopy(whole)
    inner = made
    for key in at[:-1]:
        inner = inner[key]
    if isinstance(by, str) and by == "del":
        del inner[at[-1]]
    else:
        inner[at[-1]] = by
    return made


def use(here: Here, run: RunFolder, ref: Any) -> None:
    """Every verb that only looks, and what a new submission would be built from."""
    for look in (here.target.status, here.target.events, lambda ref: list(here.target.logs(ref))):
        with contextlib.suppress(TrainwrightError):
            look(ref)
    record = read_record(run)
    if record is not None:
        current_jobs(record, sound_events(run))


@pytest.mark.parametrize("state", ["RUNNING", "FAILED", "forgotten"])
def test_spoiled_events(here: Here, state: str) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    if state == "forgotten":
        here.slurm.jobs.clear()
    else:
        here.slurm.set(prepare="COMPLETED", train=state)
    cases = [(at, by) for at in places(EVENTS) if len(at) == 2 for by in ("del", *SPOILED)]
    for at, by in random.Random(3).sample(cases, 80):
        lines = [json.dumps(event) for event in spoiled(EVENTS, at, by)]
        (run.events / "1-s.jsonl").write_text("\n".join(lines) + "\n")
        use(here, run, ref)
    (run.events / "1-s.jsonl").write_text("\n".join(map(json.dumps, EVENTS)) + "\n")
    assert len(sound_events(run)) == len(EVENTS)


def test_spoiled_books_of_the_client(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    book = json.loads(run.job_file.read_text())
    cases = [(at, by) for at in places(book) if at != ("login",) for by in ("del", *SPOILED)]
    for at, by in random.Random(3).sample(cases, 80):
        run.job_file.write_text(json.dumps(spoiled(book, at, by)))
        use(here, run, ref)


@pytest.mark.parametrize("job", ["", "x", "-1", "12; rm", "١٢", None, 12])
def test_a_job_that_is_no_number_is_no_record(job: object) -> None:
    submission = {"at": 1.0, "jobs": {"train": job}, "attempt": 1, "exclude": []}
    values = {"cluster": "c", "login": None, "folder": "/r", "cwd": "/", "submissions": [submission]}
    found = JobRecord.from_dict(values)
    assert found is None or found.main == "12"


def test_a_range_of_more_nodes_than_there_are_is_one_name() -> None:
    assert expand("n[0-99999999999],m1") == ["n0-99999999999", "m1"]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)
