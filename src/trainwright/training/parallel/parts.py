"""Modules of which a tensor rank has a part: classes that stand before a module's own and let it compute with that.

Takes tensor ranks; gives classes for ``region.compute_locally``. Both are inside a region, where results are parts of
a sum over ranks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainwright.training.parallel.region import TensorRanks


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
            return out

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
