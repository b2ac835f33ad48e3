"""The first error of the rank that failed first, whatever the logs look like."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from trainwright.runs.failures import first_error, first_failure
from trainwright.runs.folder import RunFolder

USER = (
    'Traceback (most recent call last):\n  File "/my/train.py", line 7, in <module>\n    go()\n'
    "ValueError: bad batch\n"
)
ECHO = (
    'Traceback (most recent call last):\n  File "/my/train.py", line 9, in <module>\n    reduce()\n'
    "RuntimeError: [../gloo/pair.cc:534] Connection closed by peer [127.0.0.1]:4312\n"
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "job-0a1b2c3d")
    folder.rank_log(1, 0).parent.mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("log", "text", "where"),
    [
        (USER, "ValueError: bad batch", "/my/train.py:7"),
        (USER + ECHO, "ValueError: bad batch", "/my/train.py:7"),
        (
            'Traceback (most recent call last):\n  File "/my/a.py", line 1, in <module>\n    x()\n'
            '  File "/v/lib/python3.11/site-packages/torch/nn.py", line 99, in x\n    y()\nRuntimeError: shapes\n',
            "RuntimeError: shapes", "/my/a.py:1",
        ),
        (
            'Traceback (most recent call last):\n  File "/my/a.py", line 1, in f\n    x()\nKeyError: \'text\'\n\n'
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "/my/a.py", line 5, in g\n    x()\nNameError: oops\n',
            "KeyError: 'text'", "/my/a.py:1",
        ),
        (
            'Traceback (most recent call last):\n  File "/my/a.py", line 1, in f\n    x()\nOSError: no\n\n'
            "The above exception was the direct cause of the following exception:\n\n"
            'Traceback (most recent call last):\n  File "/my/a.py", line 5, in g\n    x()\n'
            "my.Error: cannot read data\n",
            "my.Error: cannot read data", "/my/a.py:5",
        ),
        (
            '[rank1]: Traceback (most recent call last):\n[rank1]:   File "/my/a.py", line 3, in <module>\n'
            "[rank1]:     x()\n[rank1]: ZeroDivisionError: division by zero\n",
            "ZeroDivisionError: division by zero", "/my/a.py:3",
        ),
        ('  File "/my/a.py", line 3\n    x = (\n        ^\nSyntaxError: \'(\' was never closed\n',
         "SyntaxError: '(' was never closed", ""),
        ("all well\nFatal Python error: Segmentation fault\n\nThread 0x1:\n",
         "Fatal Python error: Segmentation fault", ""),
        ("step 1\nspec.yaml:3:1: model: is missing; name one\n", "spec.yaml:3:1: model: is missing; name one", ""),
        ("AssertionError\n", "AssertionError", ""),
        (USER.replace("\n", "\r\n"), "ValueError: bad batch", "/my/train.py:7"),
    ],
)  # fmt: skip
def test_first_error(log: str, text: str, where: str) -> None:
    found = first_error(log)
    assert found is not None
    assert (found.text, found.where) == (text, where)


def test_an_empty_log_says_nothing() -> None:
    assert first_error("") is None
    assert first_error("\n \n") is None


def test_the_cause_is_found_behind_the_echoes_of_other_ranks(run: RunFolder) -> None:
    run.rank_log(1, 0).write_text(ECHO)
    run.rank_log(1, 1).write_text(USER)
    os.utime(run.rank_log(1, 0), (1, 1))  # the echo fell silent first
    found = first_failure(run, 1, "train", [])
    assert found is not None
    assert (found.rank, found.text) == (1, "ValueError: bad batch")
    assert found.log.endswith("rank-1.log")


def test_of_two_causes_the_log_that_fell_silent_first_tells(run: RunFolder) -> None:
    for rank, when in ((0, 20), (1, 10)):
        run.rank_log(1, rank).write_text(USER.replace("bad", f"bad {rank}"))
        os.utime(run.rank_log(1, rank), (when, when))
    found = first_failure(run, 1, "train", [])
    assert found is not None
    assert found.rank == 1


def test_what_a_rank_reported_comes_before_what_logs_say(run: RunFolder) -> None:
    run.rank_log(1, 0).write_text(USER)
    events: list[dict[str, Any]] = [
        {"kind": "failed", "attempt": 0, "rank": 5, "exception": "Old: x"},
        {"kind": "failed", "attempt": 1, "rank": "s", "exception": "Supervisor: x"},
        {"kind": "failed", "attempt": 1, "rank": 3, "exception": "RuntimeError: Connection reset by peer"},
        {"kind": "failed", "attempt": 1, "rank": 2, "exception": "OutOfMemoryError: 3 GiB", "line": "a.py:3"},
    ]
    found = first_failure(run, 1, "train", events)
    assert found is not None
    assert (found.rank, found.text, found.where) == (2, "OutOfMemoryError: 3 GiB", "a.py:3")


def test_only_echoes_are_better_than_nothing(run: RunFolder) -> None:
    run.rank_log(1, 0).write_text(ECHO)
    found = first_failure(run, 1, "train", [])
    assert found is not None
    assert found.echo


def test_other_stages_tell_by_their_own_log(run: RunFolder) -> None:
    run.stage_log(1, "prepare").write_text("reading\ndata.jsonl:3: no text\n")
    run.rank_log(1, 0).write_text(USER)
    found = first_failure(run, 1, "prepare", [])
    assert found is not None
    assert (found.rank, found.text) == (None, "data.jsonl:3: no text")


def test_binary_and_huge_logs_are_read_from_their_end(run: RunFolder) -> None:
    run.rank_log(1, 0).write_bytes(b"\xff\x00" * 2_000_000 + b"\n" + USER.encode())
    found = first_failure(run, 1, "train", [])
    assert found is not None
    assert found.text == "ValueError: bad batch"
    run.rank_log(1, 0).write_bytes(b"\xff\x00" * 2_000_000)
    assert first_failure(run, 1, "train", []) is None


def test_no_logs_at_all_say_nothing(tmp_path: Path) -> None:
    assert first_failure(RunFolder(tmp_path / "job-0a1b2c3d"), 1, "train", []) is None
