"""Known bugs of trainers, each planted by replacing one function. The suite must catch every one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch.distributed as dist

from parity import cut_mutants
from trainwright.data.batch import PADDING
from trainwright.training import agreement, batches, gradients, objective, routing, state, step, trainer
from trainwright.training.parallel import data, expert, pipeline

Patch = tuple[Any, str, Callable[[Any], Any]]


def _count_is_local(original: Any) -> Any:
    """Each rank divides by its own count: an average of rank means."""

    def result(self: agreement.Agreement) -> agreement.Agreed:
        agreed = original(self)
        return agreement.Agreed(self._own[0] * dist.get_world_size(), agreed.tokens, agreed.stop, agreed.save)

    return result


def _mean_of_micro_batches(original: Any) -> Any:
    """Each micro-batch's loss is a mean; the means are averaged."""

    def cross_entropy(hidden: Any, head: Any, labels: Any, weight: float, *_: Any) -> Any:
        return original(hidden, head, labels, 1.0 / max(1, labels.numel()) if weight else 0.0)

    return cross_entropy


def _padding_has_targets(original: Any) -> Any:
    """What fills a micro-batch up to a pipeline's shape counts as text."""

    def padded(batch: Any, rows: int, width: int) -> Any:
        grown = original(batch, rows, width)
        return replace(grown, labels=np.where(grown.document_ids == PADDING, 1, grown.labels))

    return padded


def _experts_times_ep(original: Any) -> Any:
    """Their gradients are summed over ep once more, as those of everything else are."""

    def held_here(experts: Any) -> Any:
        return {name: part + (part - part.detach()) for name, part in original(experts).items()}

    return held_here


def _routing(change: Callable[[routing.Routing], routing.Routing]) -> Callable[[Any], Any]:
    return lambda original: classmethod(lambda cls, *given: change(original.__func__(cls, *given)))


def _one_row(of: routing.Routing) -> routing.Routing:
    """A micro-batch balances as a whole, so how it is cut changes the loss."""
    real = None if of.real is None else of.real.reshape(1, -1)
    return replace(of, rows=1, real=real, targets=of.targets.sum()[None])


MUTANTS: dict[str, list[Patch]] = {
    "mean of rank means": [(agreement.Agreement, "result", _count_is_local)],
    "mean of micro-batch means": [(objective, "chunked_cross_entropy", _mean_of_micro_batches)],
    "accumulation off by one": [
        (data, "is_last", lambda original: lambda number, count: number == max(0, count - 2))
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
    "pipeline divides by micro-batches": [
        (
            pipeline,
            "Schedule1F1B",
            lambda original: lambda *args, **fields: original(*args, **{**fields, "scale_grads": True}),
        )
    ],
    "tied gradient of one end only": [(pipeline, "add_end", lambda original: lambda mine, other: None)],
    "tied gradient counted twice": [
        (pipeline, "add_end", lambda original: lambda mine, other: mine.add_(other).add_(other))
    ],
    "norm of one stage": [(gradients, "sum_over_stages", lambda original: lambda squares, group: squares)],
    "tied embedding twice in the norm": [(pipeline.Pipelined, "copies", lambda original: lambda self: [])],
    "loss over padding": [(batches, "padded", _padding_has_targets)],
    "expert gradients times ep": [(expert, "held_here", _experts_times_ep)],
    "norm of one rank's experts": [(gradients, "sum_over_shards", lambda original: lambda squares, group: squares)],
    "balancing loss times data ranks": [
        (routing.Routing, "of", _routing(lambda of: replace(of, weight=of.weight * dist.get_world_size())))
    ],
    "balancing loss of a micro-batch": [(routing.Routing, "of", _routing(_one_row))],
    "balancing loss over padding": [(routing.Routing, "of", _routing(lambda of: replace(of, real=None)))],
    "attention crosses documents": [
        (objective.attention.Documents, "_build", lambda original: lambda self, length, window, device: None)
    ],
    **cut_mutants.MUTANTS,
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
