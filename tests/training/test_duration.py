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


def test_tokens_are_those_of_the_data_and_padding_is_none() -> None:
    end = horizon(Amount(800, "tokens"), 50, 8, 100, tokens_per_sample=25.0)
    assert (end.steps, end.samples, end.tokens_per_step) == (4, 32, 200.0)
    assert horizon(Amount(801, "tokens"), 50, 8, 100, tokens_per_sample=25.0).steps == 5
    assert [step for step in range(1, 5) if is_due(Amount(400, "tokens"), step, end, 50)] == [2, 4]


@pytest.mark.parametrize(
    ("duration", "ranges"),
    [
        (Amount(2, "epochs"), [(10, 14), (14, 18), (18, 20)]),
        (Amount(5, "steps"), [(10, 14), (14, 18)]),
        (Amount(16, "tokens"), [(10, 14), (14, 18)]),  # one token a sample
        (Amount(1, "epochs"), []),
        (Amount(0.5, "epochs"), []),
    ],
)
def test_a_run_that_goes_on_after_a_short_step_stands_at_the_samples_consumed(
    duration: Amount, ranges: list[tuple[int, int]]
) -> None:
    first = horizon(Amount(1, "epochs"), 10, 4, 8)
    assert (first.steps, first.samples) == (3, 10)
    end = horizon(duration, 10, 4, 8, 1.0, step=3, samples=10)
    found = [(end.samples_before(step), end.samples_before(step + 1)) for step in range(3, end.steps)]
    assert found == ranges
    assert end.samples == (ranges[-1][1] if ranges else 10)


@pytest.mark.parametrize("duration", [Amount(3, "epochs"), Amount(7, "steps"), Amount(123, "tokens")])
def test_an_interruption_does_not_move_the_end(duration: Amount) -> None:
    whole = horizon(duration, 50, 8, 100, 2.5)
    for step in range(whole.steps):
        end = horizon(duration, 50, 8, 100, 2.5, step=step, samples=whole.samples_before(step))
        assert (end.steps, end.samples) == (whole.steps, whole.samples)
        assert end.samples_before(step + 1) == whole.samples_before(step + 1)


def test_an_epoch_is_due_where_its_last_sample_is_consumed() -> None:
    end = horizon(Amount(2, "epochs"), 10, 4, 8, step=3, samples=10)
    assert [step for step in range(4, 7) if is_due(Amount(0.5, "epochs"), step, end, 10)] == [5, 6]


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
