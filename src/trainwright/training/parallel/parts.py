"""Modules of which a tensor rank has a part: classes that stand before a module's own and let it compute with that.

Takes tensor ranks; gives classes for ``region.compute_locally``. Both are inside a region, where results are parts of
a sum over ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from trainwright.training.parallel.region import TensorRanks


def touch(out: Tensor, *others: Tensor) -> Tensor:
    """``out``, with a gradient of zeros for ``others``: what nobody used takes part in the way back all the same."""
    touched: Tensor = _Touch.apply(out, *others)
    return touched


def own_experts(ranks: TensorRanks, experts: int) -> type:
    """For a module of fused experts, of which each rank holds as many: those of other ranks give nothing here."""
    each = experts // ranks.size
    first = ranks.rank * each

    class OwnExperts(nn.Module):  # type: ignore[misc]  # torch is not typed here
        """Renumbers the chosen experts; what is none of this rank's gets the number that is left out."""

        def forward(self, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
            """Tokens [N, H], numbers and weights [N, k] → [N, H]."""
            number = chosen - first
            mine = (number >= 0) & (number < each)
            out: Tensor = super().forward(hidden, number.where(mine, number.new_full((), each)), weights)
            if mine.any():
                return out
            # Without a token here, experts and router would have no gradient where those of other ranks have one.
            held = [getattr(self, name) for name, parameter in self._parameters.items() if parameter is not None]
            return touch(out, hidden, weights, *held)

    return OwnExperts


def wide_norm(ranks: TensorRanks) -> type:
    """For an RMS norm over all heads together, of which each rank holds some."""

    class WideNorm(nn.Module):  # type: ignore[misc]
        """Takes the mean square over the heads of all ranks."""

        def forward(self, heads: Tensor) -> Tensor:
            """[B, T, width of this rank's heads] → the same."""
            wide = heads if heads.dtype == torch.float64 else heads.float()
            squares = ranks.sum_inside(wide.square().sum(-1, keepdim=True))
            mean = squares / (heads.shape[-1] * ranks.size)
            scaled = wide * torch.rsqrt(mean + self.variance_epsilon)
            return (self.weight * scaled).to(heads.dtype)

    return WideNorm


class _Touch(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """Its first argument, with a gradient of zeros for the others."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, *others: Tensor) -> Tensor:
        ctx.others = [torch.empty_like(other, device="meta") for other in others]
        ctx.device = out.device
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, ...]:
        return upstream[0], *(torch.zeros_like(other, device=ctx.device) for other in ctx.others)
