"""Exit codes of the CLI and of ``trainwright train``, and what each means for a retry."""

from __future__ import annotations

import signal
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every verb."""

    YES = 0
    NO = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    INTERNAL = 4
    INTERRUPTED = 130


class TrainExit(IntEnum):
    """Exit codes of a training process, read by launchers on every target."""

    FINISHED = 0
    USER_ERROR = 1
    RESUME_ME = 75
    NON_FINITE = 76
    HUNG_COLLECTIVE = 77


def retry_class(code: int) -> str:
    """What kind of end an exit code is: ``finished``, ``user``, ``resume`` or ``infrastructure``.

    A negative code is a signal, as subprocess reports it. Anything unknown counts as infrastructure: a crash.
    """
    if code == TrainExit.FINISHED:
        return "finished"
    if code in (TrainExit.USER_ERROR, TrainExit.NON_FINITE):
        return "user"
    if code == TrainExit.RESUME_ME:
        return "resume"
    return "infrastructure"


def exit_words(code: int) -> str:
    """``ended with exit code 3``, or ``ended by SIGKILL`` for a signal, as subprocess or as a shell reports it."""
    number = -code if code < 0 else code - 128
    try:
        return f"ended by {signal.Signals(number).name}" if code < 0 or code > 128 else f"ended with exit code {code}"
    except ValueError:
        return f"ended with exit code {code}"
