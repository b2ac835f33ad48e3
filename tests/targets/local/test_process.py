"""A process is named by more than its pid, found by its mark, and ended with what it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from local_machine import gone, until

from trainwright.targets.local.process import (
    MARK_VARIABLE,
    ProcessId,
    die_with_parent,
    end_marked,
    identify,
    liveness,
    marked,
    send,
)

SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(SLEEP)
    yield child
    child.kill()
    child.wait()


def test_a_pid_that_is_used_again_is_another_process(sleeper: subprocess.Popen[bytes]) -> None:
    process = identify(sleeper.pid)
    assert process is not None
    assert liveness(process) == "alive"
    earlier = replace(process, started=process.started - 1)
    assert liveness(earlier) == "dead"
    assert not send(earlier, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    process = identify(child.pid)
    assert process is not None
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert liveness(process) == "dead"
    assert identify(child.pid) is None
    child.wait()


def test_another_boot_of_this_machine_is_death_and_another_machine_is_elsewhere() -> None:
    me = identify(os.getpid())
    assert me is not None
    assert liveness(replace(me, boot="another")) == "dead"
    assert liveness(replace(me, space=me.space + 1)) == "dead"
    assert liveness(replace(me, boot="another", host="another")) == "elsewhere"


@pytest.mark.parametrize(
    "values",
    [None, [], {}, "x", {"pid": 1}, {"pid": "7", "started": 1, "boot": "b", "space": 1, "host": "h"},
     {"pid": True, "started": 1, "boot": "b", "space": 1, "host": "h"},
     {"pid": -1, "started": 1, "boot": "b", "space": 1, "host": "h"},
     {"pid": 1, "started": 1, "boot": "b", "space": 1, "host": "h"}],
)  # fmt: skip
def test_what_is_no_process_is_not_read_as_one(values: object) -> None:
    """-1 and 1 above all: a signal to them would reach every process, or the init of the machine."""
    assert ProcessId.from_dict(values) is None


def test_marked_processes_are_found_and_ended_across_sessions_and_others_are_left(
    sleeper: subprocess.Popen[bytes],
) -> None:
    code = f"import subprocess, sys, time\nsubprocess.Popen({SLEEP!r}, start_new_session=True)\ntime.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-S", "-c", code], env={**os.environ, MARK_VARIABLE: "abc"})
    until(lambda: len(marked("abc")) == 2, "two processes")
    pids = marked("abc")
    assert marked("ab") == []
    assert end_marked("abc", 0)
    assert all(map(gone, pids))
    assert sleeper.poll() is None
    parent.wait()


def test_a_child_dies_with_its_parent() -> None:
    code = (
        "import subprocess, sys, time, signal\n"
        "from trainwright.targets.local.process import die_with_parent\n"
        f"child = subprocess.Popen({SLEEP!r}, preexec_fn=die_with_parent(signal.SIGTERM))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert not gone(child)
    parent.kill()
    parent.wait()
    until(lambda: gone(child), "the death of the child")


def test_die_with_parent_is_made_before_the_fork() -> None:
    assert callable(die_with_parent(signal.SIGTERM))
