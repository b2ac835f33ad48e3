"""Processes of this machine: who is who, who still lives, and how to end them. Linux only (/proc, pidfd, prctl).

A pid alone names nobody, because the kernel uses it again. A process is named by pid, start time in clock ticks
since boot, boot id and host; so no change of the clock and no reused pid can mislead.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

#: Set in the environment of everything that a supervisor starts, so that it is found wherever it moves:
#: torchrun gives every worker a session of its own, so no process group reaches them all.
MARK_VARIABLE = "TRAINWRIGHT_JOB_MARK"

Liveness = Literal["alive", "dead", "elsewhere"]
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


@dataclass(frozen=True)
class ProcessId:
    """One process, for ever. ``started`` is field 22 of /proc/<pid>/stat; ``space`` is the pid namespace's inode."""

    pid: int
    started: int
    boot: str
    space: int
    host: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> ProcessId | None:
        """Read what ``to_dict`` wrote; None for anything else."""
        try:
            found = cls(**values)
        except TypeError:
            return None
        numbers = (found.pid, found.started, found.space)
        texts = (found.boot, found.host)
        sound = all(type(n) is int for n in numbers) and all(type(t) is str for t in texts) and found.pid > 1
        return found if sound else None


def identify(pid: int) -> ProcessId | None:
    """Name a running process; None when there is none, or only its zombie."""
    stat = _stat(pid)
    if stat is None or stat.state in "ZX":
        return None
    return ProcessId(pid, stat.started, _boot_id(), os.stat("/proc/self/ns/pid").st_ino, socket.gethostname())


def liveness(process: ProcessId) -> Liveness:
    """Whether a process still runs; ``elsewhere`` when it belongs to another machine or container."""
    here = identify(os.getpid())
    if here is None or (process.boot, process.space) != (here.boot, here.space):
        same_host = here is not None and process.host == here.host
        return "dead" if same_host else "elsewhere"  # same name, other boot: the machine was restarted
    found = identify(process.pid)
    return "alive" if found is not None and found.started == process.started else "dead"


def send(process: ProcessId, number: int) -> bool:
    """Send a signal to exactly this process; False when it no longer runs. A pidfd closes the race with pid reuse."""
    if liveness(process) != "alive":
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if liveness(process) != "alive":
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def marked(mark: str) -> list[int]:
    """Pids of the live processes whose environment carries the mark, this one excepted."""
    return [pid for pid in _pids() if pid != os.getpid() and _carries(pid, mark) and identify(pid) is not None]


def end_marked(mark: str, grace_seconds: float, told: Iterable[int] = ()) -> bool:
    """End everything that carries the mark: SIGTERM, up to ``grace_seconds`` of patience, then SIGKILL.

    SIGTERM goes to the topmost processes alone: a launcher passes it on to its workers in its own order.
    ``told`` are pids that have had theirs. Returns True when nothing is left.
    """
    deadline = time.monotonic() + grace_seconds
    told = set(told)
    wait = 0.02
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in _topmost(left) - told:
            _signal(pid, signal.SIGTERM)
            told.add(pid)
        time.sleep(wait)
        wait = min(wait * 1.5, 0.5)
    deadline = time.monotonic() + 10  # a killed process may hang in the kernel, on a dead network mount
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.05)
    return not marked(mark)


def die_with_parent(number: int) -> Callable[[], None]:
    """A ``preexec_fn``: the kernel sends this signal to the child when the calling process dies in any way."""
    parent = os.getpid()
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # loaded before the fork

    def set_in_child() -> None:
        prctl(_SET_PDEATHSIG, int(number), 0, 0, 0)
        if os.getppid() != parent:  # it died before prctl took hold
            os._exit(1)

    return set_in_child


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants, so that they can be waited for."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap() -> None:
    """Collect dead children, adopted ones included, without waiting."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()  # the name before it may hold spaces and brackets
    return _Stat(fields[0].decode(), int(fields[1]), int(fields[19]))


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _carries(pid: int, mark: str) -> bool:
    try:
        return f"{MARK_VARIABLE}={mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False


def _topmost(pids: list[int]) -> set[int]:
    parents = {pid: stat.parent for pid in pids if (stat := _stat(pid)) is not None}
    return {pid for pid, parent in parents.items() if parent not in parents}


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError as error:
        if error.errno not in (errno.ESRCH, errno.EPERM):
            raise
