"""The watcher: a fork of the supervisor that outlives it by just as long as it takes to end what it had started.

It holds the reading end of a pipe whose other end only the supervisor has, and the run's lock. When the pipe closes
without a word, the supervisor was killed; then everything that carries its mark is ended, and the lock is free.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback

from trainwright.targets.local.process import end_marked, marked

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def start_watcher(mark: str, grace_seconds: float, ready: int) -> int:
    """Fork the watcher; returns the pipe into which one byte means "all is well, leave"."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)
        return writer
    code = 0
    try:
        os.close(writer)
        os.close(ready)  # its end is how the starter learns that nobody will answer
        watch(reader, mark, grace_seconds)
    except BaseException:  # noqa: BLE001  # a forked child must never return into its parent's code
        traceback.print_exc()
        code = 1
    os._exit(code)


def watch(pipe: int, mark: str, grace_seconds: float) -> None:
    """Wait for the supervisor's end; when it came without a word, end all that it had started."""
    for number in (*STOP_SIGNALS, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    if os.read(pipe, 1):
        return
    left = marked(mark)
    say(f"the supervisor is gone; ending {len(left)} process(es) that it had started")
    end_marked(mark, grace_seconds, told={pid for pid in left if _leads_here(pid)})


def _leads_here(pid: int) -> bool:
    """True for a stage's first process. The kernel has told it (``die_with_parent``); told twice, it may not save."""
    try:
        return os.getpgid(pid) == pid and os.getsid(pid) == os.getsid(0)
    except ProcessLookupError:
        return False


def say(text: str) -> None:
    """A line for supervisor.log; lost when the disk is full."""
    with contextlib.suppress(OSError):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", file=sys.stderr, flush=True)  # noqa: T201
