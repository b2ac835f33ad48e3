"""Learning-rate schedules: the share of the peak rate at each update, exact at every boundary.

Takes a spec's schedule and the number of updates of the run; gives a pure function of the update's number. Knows
neither optimizers nor tensors, so a table in a test states all there is to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from trainwright.spec.model import Schedule
from trainwright.spec.units import Amount

Ratio = Callable[[int], float]


@dataclass(frozen=True)
class Phases:
    """Lengths of a run's phases in updates. Warm-up comes first; ``decay`` is the last phase of ``wsd`` alone."""

    updates: int
    warmup: int
    decay: int


def phases(schedule: Schedule, updates: int, tokens_per_step: float) -> Phases:
    """Turn shares, steps and tokens into updates. ``tokens_per_step`` is that of ``Horizon``."""
    warmup = _length(schedule.warmup, updates, tokens_per_step)
    decay = min(_length(schedule.decay, updates, tokens_per_step), max(0, updates - warmup))
    return Phases(updates, warmup, decay)


def _length(amount: float | Amount, updates: int, tokens_per_step: float) -> int:
    if isinstance(amount, Amount):
        return math.ceil(amount.value / (tokens_per_step if amount.unit == "tokens" else 1))
    return round(amount * updates)


def ratio(schedule: Schedule, phases: Phases) -> Ratio:
    """Share of the peak rate at update u = 0, 1, …; the last update of a run of N has u = N - 1.

    Warm-up of W updates rises by equal steps, (u + 1) ÷ (W + 1), so that no update is wasted on a rate of zero and
    update W is the first at the peak. ``cosine``, ``linear`` and ``polynomial`` then fall over
    t = (u - W) ÷ (N - 1 - W) and reach ``min_ratio`` exactly at the last update. ``wsd`` stays at the peak and falls
    linearly over its last D updates, t = (u - (N - D) + 1) ÷ D. ``constant`` stays. After the end nothing changes.
    """
    shape = _SHAPES[schedule.name]

    def at(update: int) -> float:
        if update < phases.warmup:
            return (update + 1) / (phases.warmup + 1)
        if schedule.name == "constant":
            return 1.0
        if schedule.name == "wsd":
            done = update - (phases.updates - phases.decay) + 1
            t = min(max(done, 0) / phases.decay, 1.0) if phases.decay else 0.0
        else:
            length = phases.updates - 1 - phases.warmup
            t = min((update - phases.warmup) / length, 1.0) if length > 0 else 0.0
        return schedule.min_ratio + (1.0 - schedule.min_ratio) * shape(t, schedule.power)

    return at


def _cosine(t: float, power: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * t))  # Loshchilov & Hutter 2017, eq. 5, one period


def _linear(t: float, power: float) -> float:
    return 1.0 - t


def _polynomial(t: float, power: float) -> float:
    return float((1.0 - t) ** power)


_SHAPES: dict[str, Callable[[float, float], float]] = {
    "cosine": _cosine,
    "linear": _linear,
    "constant": _linear,  # never asked: it stays at the peak
    "wsd": _linear,
    "polynomial": _polynomial,
}
