"""Standard streams that are closed, full or of a poor encoding: an exit code and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_RULE = f"{sys.executable} -m trainwright rule TW101"


def _shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&-", "<&- >&- 2>&-"])
def test_a_closed_stream_changes_no_answer(closed: str) -> None:
    done = _shell(f"{_RULE} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_told_once() -> None:
    done = _shell(f"{_RULE} >/dev/full")
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_character_that_the_terminal_does_not_have_is_escaped(tmp_path: Path) -> None:
    done = _shell(f"cd {tmp_path}; {_RULE[: -len('rule TW101')]} status --runs 'é…'", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert r"\xe9\u2026: holds no runs" in done.stderr
