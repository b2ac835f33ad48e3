"""Holding a run's folder while something is done to it: its lock against other submits, and sentences for full disks.

Shared by the targets whose scheduler runs the job; the local supervisor holds its lock for as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from trainwright.errors import AnswerNo
from trainwright.runs.folder import RunFolder
from trainwright.targets.local.record import take_lock, unwritable

_LOCK_SECONDS = 60.0  # a chain of three jobs at a slow controller


@contextlib.contextmanager
def locked(run: RunFolder) -> Iterator[None]:
    """Hold the run against another submit; bounded."""
    try:
        run.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(run.root.parent, error) from error
    end = time.monotonic() + _LOCK_SECONDS
    while (lock := take_lock(run)) is None:
        if time.monotonic() > end:
            raise AnswerNo(f"{run.run_id} is being submitted or cancelled by another process", "try again")
        time.sleep(0.1)
    try:
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def writing(run: RunFolder) -> Iterator[None]:
    """Turn a disk that is full or read-only into a sentence."""
    try:
        yield
    except OSError as error:
        raise unwritable(run.root, error) from error
