"""Known bugs of trainers, each planted by replacing one function. The suite must catch every one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

from trainwright.training import agreement, gradients, objective, state, step, trainer

Patch = tuple[Any, str, Callable[[Any], Any]]


def _count_is_local(original: Any) -> Any:
    """Each rank divides by its own count: an average of rank means."""

    def result(self: agreement.Agreement) -> agreement.Agreed:
        agreed = original(self)
        return agreement.Agreed(self._own[0] * dist.get_world_size(), agreed.tokens, agreed.stop, agreed.save)

    return result


def _mean_of_micro_batches(original: Any) -> Any:
    """Each micro-batch's loss is a mean; the means are averaged."""

    def cross_entropy(hidden: Any, head: Any, labels: Any, weight: float) -> Any:
        return original(hidden, head, labels, 1.0 / max(1, labels.numel()) if weight else 0.0)

    return cross_entropy


MUTANTS: dict[str, list[Patch]] = {
    "mean of rank means": [(agreement.Agreement, "result", _count_is_local)],
    "mean of micro-batch means": [(objective, "chunked_cross_entropy", _mean_of_micro_batches)],
    "accumulation off by one": [
        (step, "is_last", lambda original: lambda number, count: number == max(0, count - 2))
    ],
    "clip per rank": [(gradients, "sum_over_shards", lambda original: lambda squares, group: squares)],
    "learning rate stepped per rank": [
        (
            state.Progress,
            "updates",
            lambda original: property(lambda self: original.fget(self) * dist.get_world_size()),
        )
    ],
    "sampler repeats after resume": [(trainer, "first_step", lambda original: lambda progress: 0)],
    "dropout seed shared over data ranks": [
        (
            step,
            "dropout_seed",
            lambda original: lambda seed, number, micro_batch, rank: original(seed, number, micro_batch, 0),
        )
    ],
    "loss factor left out": [(step, "token_weight", lambda original: lambda count, factor: original(count, 1.0))],
    "attention crosses documents": [
        (objective.attention.Documents, "_build", lambda original: lambda self, length, window, device: None)
    ],
}


@contextlib.contextmanager
def planted(name: str | None) -> Iterator[None]:
    """Plant a bug for a while."""
    if name is None:
        yield
        return
    saved = []
    try:
        for owner, attribute, change in MUTANTS[name]:
            original = owner.__dict__[attribute]
            saved.append((owner, attribute, original))
            setattr(owner, attribute, change(original))
        yield
    finally:
        for owner, attribute, original in reversed(saved):
            setattr(owner, attribute, original)
