"""How many steps, and what is due when."""

from __future__ import annotations

import pytest

from trainwright.spec.units import Amount
from trainwright.training.duration import Horizon, horizon, is_due


@pytest.mark.parametrize(
    ("duration", "steps", "samples"),
    [
        (Amount(7, "steps"), 7, 56),
        (Amount(800, "tokens"), 1, 8),
        (Amount(801, "tokens"), 2, 16),
        (Amount(1, "epochs"), 7, 50),
        (Amount(2, "epochs"), 13, 100),
        (Amount(0.5, "epochs"), 4, 25),
        (Amount(0.001, "epochs"), 1, 1),
    ],
)
def test_the_end_of_a_run(duration: Amount, steps: int, samples: int) -> None:
    end = horizon(duration, epoch_length=50, global_batch_size=8, sequence_length=100)
    assert (end.steps, end.samples) == (steps, samples)
    assert end.samples_before(end.steps) == samples


def test_only_the_last_step_is_short() -> None:
    end = horizon(Amount(1, "epochs"), 50, 8, 100)
    assert [end.samples_before(step + 1) - end.samples_before(step) for step in range(7)] == [8] * 6 + [2]


@pytest.mark.parametrize(
    ("every", "due"),
    [
        (Amount(3, "steps"), [3, 6, 9]),
        (Amount(1000, "tokens"), [3, 5, 8, 10]),  # 400 tokens a step
        (Amount(400, "tokens"), list(range(1, 11))),
        (Amount(0.2, "epochs"), [4, 8]),  # 20 samples an epoch, 1 a step
        (Amount(60, "time"), []),
        (None, []),
    ],
)
def test_what_is_due_after_which_step(every: Amount | None, due: list[int]) -> None:
    end = Horizon(10, 10, 1, 400)
    assert [step for step in range(1, 11) if is_due(every, step, end, epoch_length=20)] == due
