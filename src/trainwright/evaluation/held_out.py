"""Held-out loss: the loss over text that the model never saw, the same whatever the number of ranks.

Takes the held-out sequences and a callable that gives one batch's summed loss; gives loss, perplexity and bits per
byte. Every sequence counts once: numerator and denominator are summed over ranks, nothing is padded into the mean
or dropped from the tail. Knows nothing of models, devices or metrics files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

SequenceT = TypeVar("SequenceT")
ItemT = TypeVar("ItemT", covariant=True)
BatchT = TypeVar("BatchT")
Totals = tuple[float, float]

#: Summed cross-entropy (nats) and number of targets of one batch; numbers, or tensors of one element.
SummedLoss = Callable[[BatchT], tuple[Any, Any]]

LN2 = math.log(2.0)


class Indexed(Protocol[ItemT]):
    """Sequences by number, from 0."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> ItemT: ...


@dataclass(frozen=True)
class HeldOut:
    """Result of one evaluation: ``eval_loss`` in nats for each target token, and how many targets there were."""

    eval_loss: float
    perplexity: float
    bits_per_byte: float | None
    eval_tokens: int

    def to_dict(self) -> dict[str, Any]:
        """Plain values under the names of metrics.jsonl."""
        return asdict(self)


def choose(count: int, at_most: int | None = None) -> list[int]:
    """Numbers of the sequences to evaluate: all of them, or ``at_most`` spread evenly from the first to the last.

    Spread, because held-out documents stand in the order of their files: the first ones would be one topic.
    """
    if at_most is None or at_most >= count:
        return list(range(count))
    return [position * count // at_most for position in range(at_most)]


def share(chosen: Sequence[int], data_rank: int, data_ranks: int, batch_size: int) -> list[list[int]]:
    """This rank's micro-batches, as lists of sequence numbers; the same number of them on every rank.

    A rank that runs out gets empty lists: it must still run the model, because collectives wait for it.
    """
    rounds = math.ceil(len(chosen) / (data_ranks * batch_size))
    mine = chosen[data_rank::data_ranks]
    return [list(mine[start * batch_size : (start + 1) * batch_size]) for start in range(rounds)]


def held_out(
    sequences: Indexed[SequenceT],
    collate: Callable[[list[SequenceT]], BatchT],
    summed_loss: SummedLoss[BatchT],
    *,
    batch_size: int,
    at_most: int | None = None,
    data_rank: int = 0,
    data_ranks: int = 1,
    sum_over_ranks: Callable[[Totals], Totals] = lambda totals: totals,
    bytes_per_token: float | None = None,
) -> HeldOut | None:
    """Evaluate on all ranks together; every rank gets the same result. None when there is nothing to measure.

    ``batch_size`` sequences go through ``summed_loss`` at a time on each of ``data_ranks`` ranks; ``at_most`` bounds
    the sequences over all ranks. ``sum_over_ranks`` adds up (loss, targets) over the ranks that hold different
    targets: the data ranks, and the ranks that share a sequence if each returns only its part of it.
    ``bytes_per_token`` is bytes of held-out text ÷ its tokens; without it there are no bits per byte.
    The caller puts the model in evaluation mode and disables gradients.
    """
    loss: Any = 0.0
    targets: Any = 0
    for numbers in share(choose(len(sequences), at_most), data_rank, data_ranks, batch_size):
        batch_loss, batch_targets = summed_loss(collate([sequences[number] for number in numbers or [0]]))
        if numbers:
            # Added in double precision, and read back once at the end: a device is not stalled batch by batch.
            loss = loss + (batch_loss.double() if hasattr(batch_loss, "double") else batch_loss)
            targets = targets + batch_targets
    total_loss, total_targets = sum_over_ranks((float(loss), float(targets)))
    return _result(total_loss, round(total_targets), bytes_per_token)


def _result(loss: float, targets: int, bytes_per_token: float | None) -> HeldOut | None:
    if not targets:
        return None
    mean = loss / targets
    bits_per_byte = mean / LN2 / bytes_per_token if bytes_per_token else None
    return HeldOut(mean, perplexity(mean), bits_per_byte, targets)


def perplexity(loss: float) -> float:
    """``exp(loss)``; infinity where that is more than a float holds."""
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def sum_over_group(device: Any = "cpu", group: Any = None) -> Callable[[Totals], Totals]:
    """``sum_over_ranks`` for a torch process group: one all-reduce of two float64 numbers on ``device``."""
    import torch
    import torch.distributed as dist

    def summed(totals: Totals) -> Totals:
        tensor = torch.tensor(totals, dtype=torch.float64, device=device)
        dist.all_reduce(tensor, group=group)
        loss, targets = tensor.tolist()
        return loss, targets

    return summed
