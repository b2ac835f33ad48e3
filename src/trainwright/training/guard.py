"""The guard against losses and gradients that are not finite: finds the samples, stops or counts.

A step that is not finite changed no weight (see ``step.py``); here it is told, with the samples of the micro-batches
whose loss was not finite, or all of the step's where only gradients were.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch.distributed as dist
from torch import Tensor

from trainwright.training.batches import StepBatch
from trainwright.training.step import Gradients

_LISTED = 20


class NonFinite(Exception):
    """Training cannot go on: the loss or the gradient is not a number. The text names the samples."""


@dataclass(frozen=True)
class Suspect:
    """One step (counted from 1) that may not be finite: by micro-batch, its samples and the sum of its losses.

    It holds nothing of the batch itself, which would stay on the device until somebody looks.
    """

    step: int
    samples: tuple[tuple[int, ...], ...]
    losses: tuple[Tensor, ...]

    @classmethod
    def of(cls, batch: StepBatch, gradients: Gradients) -> Suspect:
        """What must be kept of a step to say so later."""
        return cls(batch.step + 1, batch.samples, gradients.losses)


def accuse(suspect: Suspect, origins: Callable[[int], list[str]]) -> str:
    """One sentence that names the samples of a step that was not finite. Collective: every rank gets the same."""
    losses = [float(loss) for loss in suspect.losses]
    bad = [s for loss, part in zip(losses, suspect.samples, strict=True) if not math.isfinite(loss) for s in part]
    everything = [sample for part in suspect.samples for sample in part]
    found: list[tuple[list[int], list[int]]] = [([], [])] * dist.get_world_size()
    dist.all_gather_object(found, (bad, everything))
    culprits = sorted({sample for by_loss, _ in found for sample in by_loss})
    what = "loss" if culprits else "gradient"
    named = culprits or sorted({sample for _, all_of_them in found for sample in all_of_them})
    return (
        f"the {what} of step {suspect.step} is not finite; its samples: {_list(named, origins)}. "
        "Lower optimizer.lr, set clip, look at these samples, or set nan: skip"
    )


def _list(samples: Sequence[int], origins: Callable[[int], list[str]]) -> str:
    named = [f"{sample} ({', '.join(dict.fromkeys(origins(sample)))})" for sample in samples[:_LISTED]]
    more = f" and {len(samples) - _LISTED} more" if len(samples) > _LISTED else ""
    return "; ".join(named) + more
