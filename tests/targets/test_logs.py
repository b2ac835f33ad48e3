"""Logs may hold anything; what is shown is lines that are safe to print."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.runs.folder import RunFolder
from trainwright.targets.logs import LONGEST_LINE, Tail, follow_logs, printable, read_logs, sources


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "job-0a1b2c3d")
    for attempt in (1, 2, 10):
        folder.stage_log(attempt, "x").parent.mkdir(parents=True)
    return folder


def texts(run: RunFolder, rank: int | None = None) -> list[str]:
    return [line.text for line in read_logs(run, rank)]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"tab\tstays", "tab\tstays"),
        (b"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        (b"\xff\xfe\x00", "\ufffd\ufffd\\x00"),
        ("ünï ✓".encode(), "ünï ✓"),
        ("right\u202eleft".encode(), "right\\u202eleft"),
        (b" 10%\r 50%\r100%", "100%"),
        (b"dos line\r", "dos line"),
        (b"", ""),
    ],
)
def test_a_line_cannot_disturb_a_terminal(raw: bytes, shown: str) -> None:
    assert printable(raw) == shown


def test_sources_come_by_attempt_as_numbers_and_ranks_follow_their_stage(run: RunFolder) -> None:
    for path in (
        run.stage_log(10, "train"), run.rank_log(2, 10), run.rank_log(2, 9), run.stage_log(2, "finish"),
        run.stage_log(2, "train"), run.stage_log(2, "prepare"), run.logs / "2" / "noise.txt",
        run.logs / "supervisor.log",
    ):  # fmt: skip
        path.write_text("x")
    found = [(source.attempt, source.name) for source in sources(run)]
    assert found == [(2, "prepare"), (2, "train"), (2, "rank 9"), (2, "rank 10"), (2, "finish"), (10, "train")]
    assert [source.name for source in sources(run, rank=9)] == ["rank 9"]


def test_a_line_of_megabytes_comes_in_pieces_and_nothing_is_lost(run: RunFolder) -> None:
    run.rank_log(1, 0).write_bytes(b"x" * 3_000_000 + b"\nshort\n" + b"y" * 100_000)
    lines = texts(run)
    assert max(map(len, lines)) <= LONGEST_LINE
    assert "".join(lines) == "x" * 3_000_000 + "short" + "y" * 100_000
    assert "short" in lines


def test_binary_rubbish_is_shown_and_not_fatal(run: RunFolder) -> None:
    run.rank_log(1, 0).write_bytes(bytes(range(256)) * 10 + b"\nend\n")
    assert texts(run)[-1] == "end"


def test_a_last_line_without_an_end_is_shown(run: RunFolder) -> None:
    run.rank_log(1, 0).write_bytes(b"one\ntwo")
    assert texts(run) == ["one", "two"]


def test_a_run_without_logs_has_no_lines(tmp_path: Path) -> None:
    assert texts(RunFolder(tmp_path / "job-0a1b2c3d")) == []


def test_a_tail_gives_only_what_is_new_and_waits_for_the_line_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.read() == []
    path.write_text("a\nb")
    assert tail.read() == ["a"]
    with path.open("a") as handle:
        handle.write("c\n")
    assert tail.read() == ["bc"]
    path.write_text("z\n")
    assert tail.read() == ["z"], "a file that shrank was written anew"


def test_following_goes_on_through_new_attempts_until_all_is_told(run: RunFolder) -> None:
    run.rank_log(1, 0).write_text("first\n")

    def happenings(seconds: float) -> None:
        step = next(script)
        if step == "restart":
            run.rank_log(2, 0).write_text("second\nlast without end")

    script = iter(["nothing", "restart", "nothing"])
    looks = iter([False, False, False, True])
    found = [(line.attempt, line.text) for line in follow_logs(run, None, lambda: next(looks), happenings)]
    assert found == [(1, "first"), (2, "second"), (2, "last without end")]
