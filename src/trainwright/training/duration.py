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
    """The end of a run: ``steps`` optimizer steps over ``samples`` samples; the last step may hold fewer of them.

    A run that goes on after a short last step stands at ``first_sample`` when ``first_step`` steps are done: position
    in the data is what was consumed, not a multiple of the batch.
    """

    steps: int
    samples: int
    global_batch_size: int
    sequence_length: int
    tokens_per_sample: float | None = None
    """Mean tokens of a sample; None: as many as its sequence has positions."""
    first_step: int = 0
    first_sample: int = 0

    @property
    def tokens_per_step(self) -> float:
        """Tokens of a full step on average, padding not among them."""
        each = self.sequence_length if self.tokens_per_sample is None else self.tokens_per_sample
        return self.global_batch_size * each

    def samples_before(self, step: int) -> int:
        """Samples consumed when ``step`` steps are done; ``step`` is not before ``first_step``."""
        return min(self.first_sample + (step - self.first_step) * self.global_batch_size, self.samples)


def horizon(
    duration: Amount,
    epoch_length: int,
    global_batch_size: int,
    sequence_length: int,
    tokens_per_sample: float | None = None,
    *,
    step: int = 0,
    samples: int = 0,
) -> Horizon:
    """The end of a run that has done ``step`` steps over ``samples`` samples.

    An epoch ends with a smaller step where the batch size does not divide it, so that no sample is seen more often
    than asked. Tokens are those of the data, without padding: their number becomes one of samples by the mean length
    of a sample, which is known before the run, and that is rounded up to whole steps. So the end is the same whether
    or not the run was interrupted, and what was consumed differs from what was asked by a step and by chance.
    """
    batch = global_batch_size
    each = float(sequence_length) if tokens_per_sample is None else tokens_per_sample
    if duration.unit == "steps":
        steps = max(int(duration.value), step)
        end = samples + (steps - step) * batch
    elif duration.unit == "tokens":
        steps = step + max(0, math.ceil((duration.value / each - samples) / batch - 1e-9))
        end = samples + (steps - step) * batch
    else:
        end = max(1, round(duration.value * epoch_length), samples)
        steps = step + math.ceil((end - samples) / batch)
    return Horizon(steps, end, batch, sequence_length, tokens_per_sample, step, samples)


def is_due(every: Amount | None, step: int, horizon: Horizon, epoch_length: int) -> bool:
    """True when finishing ``step`` (1-based) crosses a multiple of ``every``. Amounts of time are never due here."""
    if every is None or every.unit == "time":
        return False
    if every.unit == "epochs":
        before, after = (horizon.samples_before(number) / epoch_length for number in (step - 1, step))
    else:
        size = 1.0 if every.unit == "steps" else horizon.tokens_per_step
        before, after = (step - 1) * size, step * size
    # The small term keeps 0.1 + 0.2 style rounding from moving a boundary by one step.
    return math.floor(after / every.value + 1e-9) > math.floor(before / every.value + 1e-9)
