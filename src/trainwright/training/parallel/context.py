"""Context parallelism: each rank of a cp group computes a part of every sequence, with exact attention over all.

Takes queries, keys and values of this rank's positions (``zigzag``); gathers keys and values over the group, and
their gradients are summed back to where they came from. Everything else of a model works position by position and
needs to know nothing: positions reach rotary embeddings with the batch. Parameters are replicated over cp, so data
parallelism sums their gradients over it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from trainwright.errors import AnswerNo
from trainwright.models.layout import Layout
from trainwright.training.zigzag import ZigZag

#: Positions are the third dimension of keys and values [B, heads, T, d].
_POSITIONS = 2


@dataclass(frozen=True, eq=False)
class Context:
    """The ranks that hold the other positions of this rank's sequences."""

    group: dist.ProcessGroup
    cut: ZigZag

    def gather(self, own: Tensor) -> Tensor:
        """Keys or values of all positions, in their order, from those of this rank's."""
        out: Tensor = _Gathered.apply(own, self)
        return out


def refusals(layout: Layout, kernel: str, sentence_pairs: bool) -> list[tuple[str, str]]:
    """Why sequences cannot be cut over cp, each with what would be right; all at once."""
    asked = f"cp={layout.cp}"
    found = []
    if kernel == "flash":
        found.append((f"{asked}: the flash kernel takes queries and keys of the same positions", "attention: sdpa"))
    if sentence_pairs:
        found.append((f"{asked}: a row's label is read off its first position, which one rank has", "cp: 1"))
    return found


def apply(layout: Layout, mesh: DeviceMesh, kernel: str, sentence_pairs: bool = False) -> Context:
    """What attention must know. Raises AnswerNo with every reason why not."""
    problems = refusals(layout, kernel, sentence_pairs)
    if problems:
        raise AnswerNo("; ".join(what for what, _ in problems), "; ".join(right for _, right in problems))
    return Context(mesh["cp"].get_group(), ZigZag(mesh.get_local_rank("cp"), layout.cp))


class _Gathered(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    @staticmethod
    def forward(ctx: Any, own: Tensor, context: Context) -> Tensor:
        ctx.context = context
        gathered = collectives.wait_tensor(collectives.all_gather_tensor(own.contiguous(), 0, context.group))
        halves = [part.chunk(2, _POSITIONS) for part in gathered.chunk(context.cut.size)]
        ordered: list[Tensor] = [own] * (2 * context.cut.size)
        for rank, pair in enumerate(halves):
            for number, half in zip(context.cut.chunks(rank), pair, strict=True):
                ordered[number] = half
        return torch.cat(ordered, _POSITIONS)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        context: Context = ctx.context
        chunks = upstream[0].chunk(2 * context.cut.size, _POSITIONS)
        by_rank = torch.cat(
            [torch.cat([chunks[n] for n in context.cut.chunks(rank)], _POSITIONS) for rank in range(context.cut.size)]
        )
        own = collectives.reduce_scatter_tensor(by_rank, "sum", 0, context.group)
        return collectives.wait_tensor(own), None
