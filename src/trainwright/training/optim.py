"""Optimizers: from the spec's section to a torch optimizer over two groups of parameters.

Weight decay spares norms, biases and embeddings (tied heads included). The trainer sets the rate before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from trainwright.errors import AnswerNo, MissingExtra
from trainwright.spec.model import Optimizer
from trainwright.training.model import learned_embeddings

Groups = list[dict[str, Any]]


def parameter_groups(model: nn.Module, weight_decay: float) -> Groups:
    """Trained parameters: decayed (matrices), then not (vectors, embeddings and heads tied to them).

    Each kind is one group for each device mesh that parameters are sharded over: an update of many tensors at once
    takes those of one mesh.
    """
    embeddings = learned_embeddings(model)
    found: dict[tuple[bool, Any], list[nn.Parameter]] = {}
    for parameter in model.parameters():
        if parameter.requires_grad:
            spare = parameter.ndim < 2 or id(parameter) in embeddings
            mesh = parameter.device_mesh if isinstance(parameter, DTensor) else None
            found.setdefault((spare, mesh), []).append(parameter)
    ordered = sorted(found.items(), key=lambda item: item[0][0])
    return [{"params": params, "weight_decay": 0.0 if spare else weight_decay} for (spare, _), params in ordered]


def build_optimizer(model: nn.Module, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    """The optimizer of a spec. Raises AnswerNo for one that this device or sharding cannot run, with the reason."""
    groups = parameter_groups(model, spec.weight_decay)
    if not groups:
        raise AnswerNo(
            "nothing is trained: every parameter is frozen", "use method: full, or other lora.target_modules"
        )
    return _BUILDERS[spec.name](groups, spec, device_type)


def can_skip_on_device(optimizer: torch.optim.Optimizer) -> bool:
    """True where a step can be suppressed by a flag on the device (``found_inf``), without asking the host."""
    return bool(optimizer.defaults.get("fused"))


def _has_fused(device_type: str) -> bool:
    from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

    return device_type in _get_fused_kernels_supported_devices()


def _adamw(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    return torch.optim.AdamW(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=_has_fused(device_type))


def _adam(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    return torch.optim.Adam(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps, fused=_has_fused(device_type))


def _sgd(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    return torch.optim.SGD(groups, lr=spec.lr, momentum=spec.momentum, fused=_has_fused(device_type))


def _adafactor(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    if any(isinstance(p, DTensor) for group in groups for p in group["params"]):
        raise AnswerNo(
            "optimizer: adafactor keeps sums over rows and columns, which lie on several ranks when parameters are "
            "sharded",
            "use zero: 0 (DDP), or optimizer: adamw",
        )
    return torch.optim.Adafactor(groups, lr=spec.lr)


def _lion(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    return Lion(groups, lr=spec.lr, betas=spec.betas)


def _adamw8bit(groups: Groups, spec: Optimizer, device_type: str) -> torch.optim.Optimizer:
    if device_type != "cuda":
        raise AnswerNo(
            f"optimizer: adamw8bit needs CUDA (GPU kernels keep its 8-bit state); this run is on {device_type}",
            "use optimizer: adamw",
        )
    try:
        from torchao.optim import AdamW8bit
    except ImportError:
        raise MissingExtra("optimizer: adamw8bit", "quantized") from None
    built: torch.optim.Optimizer = AdamW8bit(groups, lr=spec.lr, betas=spec.betas, eps=spec.eps)
    return built


class Lion(torch.optim.Optimizer):  # type: ignore[misc]  # torch is not typed here
    """Sign of an interpolated momentum (Chen et al. 2023, algorithm 2), with decoupled weight decay."""

    def __init__(self, params: Iterable[Any], lr: float, betas: tuple[float, float], weight_decay: float = 0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update; the closure, if any, is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter: nn.Parameter, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        momentum = state["exp_avg"]
        direction = momentum.lerp(gradient, 1 - beta1).sign_()
        parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(direction, alpha=-group["lr"])
        momentum.lerp_(gradient, 1 - beta2)


_BUILDERS: dict[str, Callable[[Groups, Optimizer, str], torch.optim.Optimizer]] = {
    "adamw": _adamw,
    "adam": _adam,
    "sgd": _sgd,
    "adamw8bit": _adamw8bit,
    "adafactor": _adafactor,
    "lion": _lion,
}
