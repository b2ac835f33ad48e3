"""What a checkpoint holds: trained weights, optimizer state, and the trainer's counters as plain values.

Takes the live model and optimizer; gives the nested dict that the checkpoints room saves and loads, under names of
the unwrapped model, whatever wraps it. Frozen weights are not in it: they come from the model's own folder.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict

from trainwright.spec.model import EarlyStopping
from trainwright.training.precision import LossScale


@dataclass
class Progress:
    """How far the run is. ``updates`` are steps that changed the weights; the schedule follows them."""

    step: int = 0
    samples: int = 0
    tokens: int = 0
    skipped: int = 0
    evaluated_step: int = -1
    best_eval_loss: float = math.inf
    lowest_eval_loss: float = math.inf
    best_step: int = -1
    """Step of the lowest held-out loss, gains below ``min_delta`` included."""
    evaluations_without_gain: int = 0

    @property
    def updates(self) -> int:
        """Steps that were applied."""
        return self.step - self.skipped

    def evaluated(self, eval_loss: float, rule: EarlyStopping | None) -> bool:
        """Take note of a held-out loss; True when the run should stop early."""
        self.evaluated_step = self.step
        gain = rule.min_delta if rule else 0.0
        if eval_loss < self.lowest_eval_loss:
            self.lowest_eval_loss, self.best_step = eval_loss, self.step
        if eval_loss < self.best_eval_loss - gain:
            self.best_eval_loss, self.evaluations_without_gain = eval_loss, 0
        elif self.step > 0:
            self.evaluations_without_gain += 1
        return self.gives_up(rule)

    def gives_up(self, rule: EarlyStopping | None) -> bool:
        """True when as many evaluations in a row as ``rule`` allows brought nothing."""
        return rule is not None and self.evaluations_without_gain >= rule.patience

    def to_state(self) -> dict[str, Any]:
        """JSON-ready values; infinity is written as None."""
        values = asdict(self)
        return values | {name: values[name] if math.isfinite(values[name]) else None for name in _LOSSES}

    @classmethod
    def from_state(cls, values: dict[str, Any]) -> Progress:
        """Read what ``to_state`` wrote."""
        return cls(**{**values, **{name: math.inf if values[name] is None else values[name] for name in _LOSSES}})


_LOSSES = ("best_eval_loss", "lowest_eval_loss")


def model_state(network: nn.Module) -> dict[str, torch.Tensor]:
    """Trained weights and persistent buffers by name; tied weights once. Tensors share memory with the model."""
    held = network.state_dict()  # FSDP shards again here what it had gathered
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}
    every = {name for name, _ in network.named_parameters(remove_duplicate=False)}
    return {name: value.detach() for name, value in held.items() if name in trained or name not in every}


def held_state(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Weights and optimizer state, to save or to load into. An optimizer that has not stepped yet gets zeros."""
    return {
        "model": model_state(network),
        "optimizer": dict(get_optimizer_state_dict(network, optimizer)["state"]),
    }


def take_held(network: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Go on from a loaded state. Weights were loaded in place; settings of the optimizer stay those of the spec."""
    whole = get_optimizer_state_dict(network, optimizer)
    whole["state"] = state["optimizer"]
    set_optimizer_state_dict(network, optimizer, whole)


def counters(progress: Progress, scale: LossScale) -> dict[str, Any]:
    """The trainer's own plain values."""
    return {"progress": progress.to_state(), "loss_scale": scale.state()}


def take_counters(values: dict[str, Any], scale: LossScale) -> Progress:
    """The reverse."""
    scale.load(values["loss_scale"])
    return Progress.from_state(values["progress"])
