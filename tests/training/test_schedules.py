"""Rates at every boundary, as tables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from trainwright.spec.model import Schedule
from trainwright.training.schedules import Phases, phases, ratio


def table(updates: int, tokens_per_step: int = 1, **fields: Any) -> list[float]:
    schedule = Schedule.model_validate(fields)
    at = ratio(schedule, phases(schedule, updates, tokens_per_step))
    return [round(at(update), 12) for update in range(updates)]


@pytest.mark.parametrize(
    ("fields", "updates", "rates"),
    [
        # warm-up of 3 below the peak, peak at update 3, minimum at the last
        ({"name": "linear", "warmup": "3 steps", "min_ratio": 0.0}, 8, [0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0]),
        ({"name": "linear", "warmup": "3 steps", "min_ratio": 0.2}, 8, [0.25, 0.5, 0.75, 1.0, 0.8, 0.6, 0.4, 0.2]),
        ({"name": "linear", "warmup": 0, "min_ratio": 0.0}, 5, [1.0, 0.75, 0.5, 0.25, 0.0]),
        ({"name": "cosine", "warmup": 0, "min_ratio": 0.0}, 5, [1.0, 0.853553390593, 0.5, 0.146446609407, 0.0]),
        ({"name": "cosine", "warmup": "1 steps", "min_ratio": 0.1}, 4, [0.5, 1.0, 0.55, 0.1]),
        ({"name": "constant", "warmup": "2 steps"}, 5, [1 / 3, 2 / 3, 1.0, 1.0, 1.0]),
        (
            {"name": "wsd", "warmup": "1 steps", "decay": "2 steps", "min_ratio": 0.0},
            6,
            [0.5, 1.0, 1.0, 1.0, 0.5, 0.0],
        ),
        ({"name": "wsd", "warmup": 0, "decay": "4 steps", "min_ratio": 0.2}, 5, [1.0, 0.8, 0.6, 0.4, 0.2]),
        ({"name": "wsd", "warmup": 0, "decay": 0}, 3, [1.0, 1.0, 1.0]),
        ({"name": "polynomial", "warmup": 0, "power": 2, "min_ratio": 0.0}, 5, [1.0, 0.5625, 0.25, 0.0625, 0.0]),
        ({"name": "polynomial", "warmup": "1 steps", "power": 1, "min_ratio": 0.5}, 4, [0.5, 1.0, 0.75, 0.5]),
        # degenerate runs
        ({"name": "cosine", "warmup": 0}, 1, [1.0]),
        ({"name": "linear", "warmup": "4 steps"}, 4, [0.2, 0.4, 0.6, 0.8]),
        ({"name": "linear", "warmup": "1 steps", "min_ratio": 0.0}, 2, [0.5, 1.0]),
    ],
)
def test_rates_are_exact_at_every_boundary(fields: dict[str, Any], updates: int, rates: list[float]) -> None:
    assert table(updates, **fields) == [round(rate, 12) for rate in rates]


@pytest.mark.parametrize(
    ("warmup", "expected"),
    [("7 steps", 7), ("1000 tokens", 10), ("1001 tokens", 11), (0.25, 25), (0.0, 0), (0.004, 0), (0.006, 1)],
)
def test_warmup_is_given_in_steps_tokens_or_a_share(warmup: Any, expected: int) -> None:
    schedule = Schedule.model_validate({"warmup": warmup})
    assert phases(schedule, updates=100, tokens_per_step=100).warmup == expected


def test_decay_never_reaches_into_warmup() -> None:
    schedule = Schedule.model_validate({"name": "wsd", "warmup": "6 steps", "decay": "9 steps"})
    assert phases(schedule, updates=10, tokens_per_step=1) == Phases(10, 6, 4)


@pytest.mark.parametrize("name", ["cosine", "linear", "polynomial", "wsd"])
def test_after_the_end_the_minimum_holds(name: str) -> None:
    schedule = Schedule.model_validate({"name": name, "min_ratio": 0.3, "warmup": 0})
    at = ratio(schedule, phases(schedule, 10, 1))
    assert at(9) == at(10) == at(1000) == 0.3


@pytest.mark.parametrize("name", ["cosine", "linear", "polynomial", "wsd", "constant"])
def test_warmup_rises_and_the_rest_never_rises(name: str) -> None:
    rates = table(50, name=name, warmup=0.2, decay=0.3)
    assert all(a < b for a, b in itertools.pairwise(rates[:11]))
    assert rates[10] == 1.0
    assert all(a >= b for a, b in itertools.pairwise(rates[10:]))
