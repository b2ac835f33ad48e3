"""Pipeline schedules: how many micro-batches a stage holds, how long the pipe takes.

Takes seconds per stage and counts; gives seconds and counts. Must not know what a stage computes.
Sources: GPipe (Huang et al. 2019), 1F1B and interleaving (Narayanan et al. 2021, §2.2), in-flight activations of the
interleaved schedule (Korthikanti et al. 2022, §4.2.3), zero bubble H1 (Qi et al. 2024, table 1).
"""

from __future__ import annotations

from collections.abc import Sequence


def in_flight(schedule: str, stage: int, pp: int, micro_batches: int, chunks: int = 1) -> float:
    """Micro-batches whose activations a rank of ``stage`` (0-based) holds at its peak, each of *all its layers*.

    With ``chunks`` model chunks per rank the count is a fraction: each chunk holds its own micro-batches.
    """
    if schedule == "gpipe":
        return float(micro_batches)
    if schedule == "interleaved" and chunks > 1:
        warm_up = (pp - stage - 1) * 2 + (chunks - 1) * pp + 1
        return min(micro_batches * chunks, warm_up) / chunks
    if schedule == "zero_bubble":
        # H1 defers weight gradients: no stage holds more than the first one, but later ones hold as much.
        return float(min(micro_batches, pp))
    return float(min(micro_batches, pp - stage))


def pipeline_seconds(
    schedule: str,
    stage_seconds: Sequence[float],
    micro_batches: int,
    chunks: int = 1,
    weight_share: float = 1 / 3,
) -> tuple[float, float]:
    """(busy, bubble): seconds of the slowest rank's own work, and seconds that it waits.

    ``stage_seconds``: forward + backward of one micro-batch on each *rank*, all its chunks together.
    ``weight_share``: what of that are weight gradients. The pipe fills and drains once: every other stage's time
    passes once (divided by the chunks when interleaved; under zero bubble H1 forward + backward − weight gradients of
    it, twice the weight gradients less than 1F1B, which is a third where the three take equally long).
    """
    slowest = max(stage_seconds)
    others = sum(stage_seconds) - slowest
    if schedule == "interleaved":
        others /= chunks
    elif schedule == "zero_bubble":
        others *= max(0.0, 1 - 2 * weight_share)
    return micro_batches * slowest, others
