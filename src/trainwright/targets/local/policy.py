"""What follows the end of a stage: the next stage, another try, or the end. Pure: an exit code in, a decision out.

Errors of the user and failures of the infrastructure have budgets of their own. A stage that saved on a signal
(exit 75) is started again at no cost, as long as it gets somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from trainwright.runs.exit_codes import Exit, retry_class
from trainwright.spec.model import Retry

#: Exits 75 in a row without a new checkpoint that cost nothing. After that they count as infrastructure:
#: a script that always leaves with 75 must not run for ever.
IDLE_RESUMES = 5
LONGEST_DELAY = 60.0


@dataclass(frozen=True)
class Used:
    """What has been used of each budget since the run was started or resumed by hand."""

    user: int = 0
    infrastructure: int = 0
    idle_resumes: int = 0
    restarts: int = 0


@dataclass(frozen=True)
class Decision:
    """``again`` starts the same stage once more after ``delay_seconds``; ``used`` is the new account."""

    action: Literal["next", "again", "fail"]
    used: Used
    delay_seconds: float = 0.0


def memory_ran_out(code: int, kills: int) -> bool:
    """True where the kernel's ``kills`` for memory since a stage began explain its exit code.

    The kernel counts for the whole machine: somebody else's kill must not explain an error that the run has told.
    """
    return kills > 0 and failure_class(code) == "infrastructure"


def failure_class(code: int) -> str:
    """``runs.exit_codes.retry_class``, where bad input (exit 2 of every verb and of argparse) is the user's."""
    return "user" if code == Exit.BAD_INPUT else retry_class(code)


def decide(code: int, used: Used, retry: Retry, *, saved_more: bool, delay_seconds: float) -> Decision:
    """What to do after a stage ended with ``code``.

    ``saved_more`` says whether a newer checkpoint exists than when the stage began. ``delay_seconds`` is the
    pause before the first restart; it doubles each time, up to a minute.
    """
    kind = failure_class(code)
    if kind == "finished":
        return Decision("next", replace(used, idle_resumes=0))
    if kind == "resume":
        idle = 0 if saved_more else used.idle_resumes + 1
        if idle <= IDLE_RESUMES:
            return _again(replace(used, idle_resumes=idle), delay_seconds)
        kind = "infrastructure"
    budget = retry.user if kind == "user" else retry.infrastructure
    spent = used.user if kind == "user" else used.infrastructure
    if spent >= budget:
        return Decision("fail", used)
    spent_now = replace(used, user=spent + 1) if kind == "user" else replace(used, infrastructure=spent + 1)
    return _again(spent_now, delay_seconds)


def _again(used: Used, delay_seconds: float) -> Decision:
    delay = min(delay_seconds * 2.0 ** min(used.restarts, 16), LONGEST_DELAY)
    return Decision("again", replace(used, restarts=used.restarts + 1), delay)
