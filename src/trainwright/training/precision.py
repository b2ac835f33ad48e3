"""Number formats: what is computed in which type, and the loss scale that keeps fp16 gradients representable.

Takes the spec's precision and the device; gives types, an autocast context and a LossScale. Weights that are trained
and optimizer state stay in fp32 whatever is chosen.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch

from trainwright.errors import AnswerNo
from trainwright.training.devices import Device

_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


@dataclass(frozen=True)
class Precision:
    """``compute`` is the type of activations and matrix products; ``master`` that of trained weights."""

    name: str
    compute: torch.dtype
    master: torch.dtype

    @property
    def is_mixed(self) -> bool:
        """True when computing and keeping use different types."""
        return bool(self.compute != self.master)

    @property
    def frozen(self) -> torch.dtype:
        """Type of weights that are not trained: nothing is added to them, so what computing takes is enough."""
        return self.compute

    def autocast(self, device_type: str) -> contextlib.AbstractContextManager[Any]:
        """Context for the forward pass where parameters are kept in ``master`` (without FSDP's own casting)."""
        if not self.is_mixed:
            return contextlib.nullcontext()
        context: contextlib.AbstractContextManager[Any] = torch.autocast(device_type, dtype=self.compute)
        return context


def choose_precision(asked: str, device: Device) -> Precision:
    """``auto`` is bf16 where the accelerator computes it, else fp32. Raises AnswerNo for what the device cannot do.

    ``fp64`` is for proofs and tests; a spec cannot ask for it.
    """
    if asked == "auto":
        asked = "bf16" if device.type == "cuda" and torch.cuda.is_bf16_supported(False) else "fp32"
    if asked == "bf16" and device.type == "cuda" and not torch.cuda.is_bf16_supported(False):
        raise AnswerNo("precision: bf16 is not computed by this GPU", "use fp16, fp32 or auto")
    compute = _TYPES[asked]
    return Precision(asked, compute, torch.float64 if asked == "fp64" else torch.float32)


@dataclass
class LossScale:
    """Dynamic loss scale (Micikevicius et al. 2018, section 3.2): doubled after 2000 good steps, halved on overflow.

    Disabled (always one) for types that need none. A skipped step is not an update: the schedule does not move.
    """

    enabled: bool
    value: float = 2.0**16
    growth_interval: int = 2000
    good_steps: int = 0

    @property
    def factor(self) -> float:
        """What the loss is multiplied by before backward."""
        return self.value if self.enabled else 1.0

    def update(self, finite: bool) -> None:
        """Account for one step. At one the scale stops falling: what overflows then is not the scale's fault."""
        if not self.enabled:
            return
        if not finite:
            self.value, self.good_steps = max(1.0, self.value / 2), 0
            return
        self.good_steps += 1
        if self.good_steps == self.growth_interval:
            self.value, self.good_steps = min(self.value * 2, 2.0**24), 0

    @property
    def at_bottom(self) -> bool:
        """True when an overflow can no longer be blamed on the scale."""
        return not self.enabled or self.value <= 1.0

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {"value": self.value, "good_steps": self.good_steps}

    def load(self, state: dict[str, Any]) -> None:
        """Take up where a checkpoint left off."""
        self.value, self.good_steps = float(state["value"]), int(state["good_steps"])
