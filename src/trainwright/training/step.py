"""One optimizer step: gradients over all micro-batches, norm, clipping, update. Knows no files, logs or schedules.

Takes micro-batches and the number of valid tokens of the global batch; leaves updated parameters. Nothing is read
back from the device unless a decision depends on it (a loss scale, ``nan: skip``, or an optimizer that cannot be
told on the device to skip).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.training.batches import DeviceBatch
from trainwright.training.devices import Device
from trainwright.training.gradients import clip_factor, gradient_norm, local_gradients, scale_gradients
from trainwright.training.loss import token_weight
from trainwright.training.optim import can_skip_on_device
from trainwright.training.parallel.data import DataParallel, MicroBatch
from trainwright.training.precision import LossScale, Precision
from trainwright.training.state import held_state, take_held
from trainwright.training.whereabouts import Whereabouts


@dataclass(frozen=True)
class Gradients:
    """What the backward passes gave: sums of the loss by micro-batch on this rank, on the device, in nats."""

    losses: tuple[Tensor, ...]

    @property
    def total(self) -> Tensor:
        """This rank's sum."""
        return torch.stack(self.losses).sum() if len(self.losses) > 1 else self.losses[0]


@dataclass(frozen=True)
class Update:
    """``norm`` is that of the true gradient, on the device. ``applied`` is None when the host has not asked yet."""

    norm: Tensor
    applied: bool | None


@dataclass
class Stepper:
    """Computes steps for one model. ``check_each_step`` makes the host look at each step's norm at once."""

    parallel: DataParallel
    optimizer: torch.optim.Optimizer
    device: Device
    precision: Precision
    scale: LossScale
    clip: float | None
    seed: int
    data_rank: int
    check_each_step: bool
    place: Whereabouts = field(default_factory=Whereabouts)
    parameters: list[nn.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        self.check_each_step = (
            self.check_each_step or self.device.is_cpu or self.scale.enabled or not can_skip_on_device(self.optimizer)
        )

    def gradients(self, step: int, batches: Sequence[DeviceBatch], valid_tokens: int, rows: int = 0) -> Gradients:
        """Backward of every micro-batch of step ``step``; ``valid_tokens`` and ``rows`` are over all ranks."""
        factor = self.parallel.loss_factor * self.scale.factor
        weight, row_weight = token_weight(valid_tokens, factor), token_weight(rows, factor)
        work = [
            MicroBatch(batch, weight, row_weight, dropout_seed(self.seed, step, number, self.data_rank))
            for number, batch in enumerate(batches)
        ]
        return Gradients(self.parallel.gradients(work, self.compute))

    def loss(self, batch: DeviceBatch) -> Tensor:
        """Sum of the loss over one micro-batch's targets, without gradients: what evaluation adds up. Where other
        ranks hold the loss (a pipeline's last stage), zero.
        """
        return self.parallel.loss(batch, self.compute)

    def compute(self, module: nn.Module, seed: int | None, *arguments: Any) -> Any:
        """``module(*arguments)`` in the run's number format, after seeding dropout."""
        self.place.passes()
        if seed is not None:
            self.device.seed(seed)
        if self.parallel.autocast and self.precision.is_mixed:
            with self.precision.autocast(self.device.type):
                return module(*arguments)
        return module(*arguments)

    def state(self, network: nn.Module) -> dict[str, Any]:
        """Weights and optimizer state of ``network``, to save or to load into. Collective."""
        return held_state(network, self.optimizer)

    def restore(self, network: nn.Module, state: dict[str, Any]) -> None:
        """Go on from what was loaded into ``state``. Collective."""
        take_held(network, self.optimizer, state)

    def update(self, lr: float) -> Update:
        """Clip and apply the gradients at rate ``lr``, then forget them. What is not finite changes nothing."""
        gradients = local_gradients(self.parameters)
        copies = {id(parameter) for parameter in self.parallel.copies()}
        counted = [p for p in self.parameters if id(p) not in copies] if copies else None
        norm = gradient_norm(
            gradients if counted is None else local_gradients(counted), self.device.torch, self.parallel.model_group
        )
        if self.scale.enabled:
            norm = norm / self.scale.factor
        applied: bool | None = None
        if self.check_each_step:
            applied = math.isfinite(norm.item())
            if applied:
                self._apply(gradients, norm, lr)
            self.scale.update(applied)
        else:
            self.optimizer.found_inf = torch.isfinite(norm).logical_not().float()
            self._apply(gradients, norm, lr)
        self.optimizer.zero_grad(set_to_none=True)
        return Update(norm, applied)

    def _apply(
        self, gradients: list[tuple[Tensor, tuple[torch.distributed.ProcessGroup, ...]]], norm: Tensor, lr: float
    ) -> None:
        factor = clip_factor(norm, self.clip, self.scale.factor)
        if factor is not None:
            scale_gradients(gradients, factor)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()


def dropout_seed(seed: int, step: int, micro_batch: int, data_rank: int) -> int:
    """Seed of one micro-batch's dropout: a function of its place in the run, so a resume needs no generator's state,
    and different over data ranks, which must not drop the same units. Constants: SplitMix64 (Steele et al. 2014).
    """
    value = seed
    for part in (step, micro_batch, data_rank):
        value = (value + part + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
        value ^= value >> 31
    return value >> 1
