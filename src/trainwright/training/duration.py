"""How long a run is and what is due when: pure arithmetic on steps, samples and tokens.

Takes amounts from the spec and counts from the data; gives numbers of steps and yes-or-no per step. Every rank
computes the same answers from the same numbers, so no rank has to ask another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trainwright.spec.units import Amount


@dataclass(frozen=True)
class Horizon:
    """The end of a run: ``steps`` optimizer steps over ``samples`` samples; the last step may hold fewer of them."""

    steps: int
    samples: int
    global_batch_size: int
    sequence_length: int

    @property
    def tokens_per_step(self) -> int:
        """Token positions of a full step."""
        return self.global_batch_size * self.sequence_length

    def samples_before(self, step: int) -> int:
        """Samples consumed when ``step`` steps are done."""
        return min(step * self.global_batch_size, self.samples)


def horizon(duration: Amount, epoch_length: int, global_batch_size: int, sequence_length: int) -> Horizon:
    """The run's end. Tokens are counted as positions (padding included) and rounded up to whole steps; an epoch ends
    with a smaller step where the batch size does not divide it, so that no sample is seen more often than asked.
    """
    if duration.unit == "epochs":
        samples = max(1, round(duration.value * epoch_length))
        return Horizon(math.ceil(samples / global_batch_size), samples, global_batch_size, sequence_length)
    if duration.unit == "tokens":
        steps = math.ceil(duration.value / (global_batch_size * sequence_length))
    else:
        steps = int(duration.value)
    return Horizon(steps, steps * global_batch_size, global_batch_size, sequence_length)


def is_due(every: Amount | None, step: int, horizon: Horizon, epoch_length: int) -> bool:
    """True when finishing ``step`` (1-based) crosses a multiple of ``every``. Amounts of time are never due here."""
    if every is None or every.unit == "time":
        return False
    size = {"steps": 1.0, "tokens": float(horizon.tokens_per_step)}.get(every.unit)
    if size is None:
        size = horizon.global_batch_size / epoch_length
    # The small term keeps 0.1 + 0.2 style rounding from moving a boundary by one step.
    return math.floor(step * size / every.value + 1e-9) > math.floor((step - 1) * size / every.value + 1e-9)
