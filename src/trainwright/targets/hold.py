"""Holding a run while something is done to it: its lock, whether it may be started again, sentences for full disks.

Shared by the targets whose scheduler runs the job; the local supervisor holds its lock for as long as it lives.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from trainwright.errors import AnswerNo
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobState, Reason
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


def not_submitted(run: RunFolder, scheme: str) -> JobState:
    """The state of a run that has a folder and no job."""
    text = "The run was rendered, not submitted."
    way_out = f"trainwright submit {run.bundle}"
    return JobState("PENDING", Reason(f"{scheme}-not-submitted", "dependency", text, way_out))


def stays_as_it_is(run: RunFolder, state: JobState | None, *, edited: bool) -> bool:
    """True when there is nothing to resume: the run lives, or is complete and its spec is not ``edited``.

    AnswerNo for an edited spec under a live run. ``state`` is None for a run that was never submitted.
    """
    if state is None:
        return False
    if not state.final and edited:
        what = f"{run.run_id} is {state.phase}; a spec cannot be changed under it"
        raise AnswerNo(what, f"trainwright cancel {run.run_id}, then resume it with the change")
    return not state.final or (state.phase == "SUCCEEDED" and not edited)
