"""What the trainer counts, and when it gives up: tables, without a trainer."""

from __future__ import annotations

import json
import math

import pytest

from trainwright.spec.model import EarlyStopping
from trainwright.training.state import Progress

NAN = math.nan


@pytest.mark.parametrize(
    ("losses", "patience", "min_delta", "stops_at", "best_step"),
    [
        ([5.0, 4.0, 3.0, 2.0], 1, 0.0, None, 3),
        ([5.0, 4.0, 4.0, 4.0], 2, 0.0, 3, 1),
        ([5.0, 6.0, 4.0, 6.0, 5.0], 2, 0.0, 4, 2),  # a gain sets the count back to none
        ([5.0, 4.9, 4.8, 4.7, 4.6], 3, 0.25, None, 4),  # small gains add up to one that counts
        ([5.0, 4.9, 4.9, 4.0], 2, 0.25, 2, 1),  # the best is the lowest, however small its gain
        ([5.0, NAN, 4.0, NAN, NAN], 2, 0.0, 4, 2),
        ([4.0, 5.0, 6.0], 2, 0.0, 2, 0),
        ([5.0, math.inf, math.inf], 2, 0.0, 2, 0),
        ([NAN, 3.0, 2.0], 1, 0.0, None, 2),
    ],
)
def test_when_training_stops_early_and_which_step_was_best(
    losses: list[float], patience: int, min_delta: float, stops_at: int | None, best_step: int
) -> None:
    rule, progress = EarlyStopping(patience=patience, min_delta=min_delta), Progress()
    stopped = None
    for step, loss in enumerate(losses):
        progress.step = step
        if progress.evaluated(loss, rule):
            stopped = step
            break
    assert stopped == stops_at
    assert progress.best_step == best_step
    assert progress.evaluated_step == (len(losses) - 1 if stops_at is None else stops_at)


def test_without_a_rule_nothing_stops_but_the_best_is_known() -> None:
    progress = Progress()
    for step, loss in enumerate([3.0, 4.0, 2.0, 5.0]):
        progress.step = step
        assert not progress.evaluated(loss, None)
    assert (progress.best_step, progress.lowest_eval_loss) == (2, 2.0)


def test_the_count_goes_on_after_a_restart() -> None:
    rule, progress = EarlyStopping(patience=3), Progress()
    for step, loss in enumerate([3.0, 4.0, 4.0]):
        progress.step = step
        assert not progress.evaluated(loss, rule)
    again = Progress.from_state(json.loads(json.dumps(progress.to_state(), allow_nan=False)))
    assert again == progress
    again.step = 3
    assert again.evaluated(4.0, rule)


def test_a_run_that_measured_nothing_is_written_as_json() -> None:
    assert Progress.from_state(json.loads(json.dumps(Progress().to_state(), allow_nan=False))) == Progress()
