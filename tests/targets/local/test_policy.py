"""What follows the end of a stage, as a table."""

from __future__ import annotations

import pytest

from trainwright.runs.exit_codes import exit_words
from trainwright.spec.model import Retry
from trainwright.targets.local.policy import (
    IDLE_RESUMES,
    LONGEST_DELAY,
    Used,
    decide,
    failure_class,
    memory_ran_out,
)

RETRY = Retry(user=1, infrastructure=2)


@pytest.mark.parametrize(
    ("code", "used", "saved_more", "action", "after"),
    [
        (0, Used(), False, "next", Used()),
        (0, Used(idle_resumes=3), False, "next", Used()),
        (1, Used(), False, "again", Used(user=1, restarts=1)),
        (1, Used(user=1), False, "fail", Used(user=1)),
        (2, Used(user=1), False, "fail", Used(user=1)),
        (76, Used(user=1), False, "fail", Used(user=1)),
        (77, Used(user=1), False, "again", Used(user=1, infrastructure=1, restarts=1)),
        (-9, Used(), False, "again", Used(infrastructure=1, restarts=1)),
        (137, Used(infrastructure=1), False, "again", Used(infrastructure=2, restarts=1)),
        (-11, Used(infrastructure=2), True, "fail", Used(infrastructure=2)),
        (75, Used(user=1, infrastructure=2), True, "again", Used(user=1, infrastructure=2, restarts=1)),
        (75, Used(idle_resumes=2), True, "again", Used(restarts=1)),
        (75, Used(idle_resumes=2), False, "again", Used(idle_resumes=3, restarts=1)),
        (75, Used(idle_resumes=IDLE_RESUMES, infrastructure=2), False, "fail",
         Used(idle_resumes=IDLE_RESUMES, infrastructure=2)),
    ],
)  # fmt: skip
def test_decision(code: int, used: Used, saved_more: bool, action: str, after: Used) -> None:
    decision = decide(code, used, RETRY, saved_more=saved_more, delay_seconds=0)
    assert (decision.action, decision.used) == (action, after)


def test_the_two_budgets_do_not_touch_each_other() -> None:
    used = Used()
    for code in (1, -9, -9):
        decision = decide(code, used, RETRY, saved_more=False, delay_seconds=0)
        assert decision.action == "again"
        used = decision.used
    assert (used.user, used.infrastructure) == (1, 2)
    assert {decide(code, used, RETRY, saved_more=False, delay_seconds=0).action for code in (1, -9)} == {"fail"}


def test_the_pause_doubles_up_to_a_minute() -> None:
    used, pauses = Used(), []
    for _ in range(9):
        decision = decide(75, used, RETRY, saved_more=True, delay_seconds=1)
        pauses.append(decision.delay_seconds)
        used = decision.used
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "ended with exit code 3"), (-9, "ended by SIGKILL"), (143, "ended by SIGTERM"),
     (-200, "ended with exit code -200"),
     (255, "ended with exit code 255")],
)  # fmt: skip
def test_an_exit_code_in_words(code: int, words: str) -> None:
    assert exit_words(code) == words


def test_bad_input_is_the_users() -> None:
    assert failure_class(2) == "user"


@pytest.mark.parametrize(
    ("code", "kills", "blamed"),
    [
        (-9, 1, True),
        (137, 2, True),
        (70, 1, True),
        (-9, 0, False),
        (1, 1, False),
        (2, 1, False),
        (76, 1, False),
        (75, 1, False),
    ],
)
def test_a_kill_for_memory_explains_only_an_end_that_it_can_have_caused(code: int, kills: int, blamed: bool) -> None:
    assert memory_ran_out(code, kills) is blamed
