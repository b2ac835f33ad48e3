"""Expert parallelism: each rank of an ep group holds a part of every layer's experts; tokens travel there and back.

Takes the sparse layers (``routing.SparseLayer``) and the mesh; leaves the fused expert parameters as DTensors with
Shard(0) over ep, under the model's names, and gives what exchanges tokens. ep divides dp_shard · cp and adds no
ranks; over the ranks that hold the same experts, these are data parallel. Gradients of experts are summed over all
data ranks exactly once: over ep by the exchange's way back, over the others by data parallelism.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard

from trainwright.errors import AnswerNo
from trainwright.models.family import Stack
from trainwright.models.layout import Layout
from trainwright.models.registry import FAMILIES, family
from trainwright.spec.model import Experts
from trainwright.training.mesh import joined
from trainwright.training.parallel.data import Apart
from trainwright.training.parallel.parts import touch
from trainwright.training.precision import Precision
from trainwright.training.routing import Balance, Policy, SparseLayer, Tally, choose_policy, find_layers

#: Mesh dimensions in place of (dp_shard, cp): ranks with other experts are neighbours, ranks with the same lie apart.
SAME_EXPERTS, OTHER_EXPERTS = "expert_data", "ep"


@dataclass(frozen=True)
class ExpertRanks:
    """The ranks around one, as its experts see them."""

    ep: DeviceMesh
    """One-dimensional: ranks that hold the other experts of the same copy."""
    data: DeviceMesh
    """Ranks that hold the same experts: (expert_data) or (dp_replicate, expert_data)."""


@dataclass(frozen=True)
class Wanted:
    """What is to be done to a model with experts; found in the whole model, before a pipeline takes parts of it."""

    stacks: tuple[Stack, ...]
    policy: Policy
    blocks: int
    """Blocks of the whole model, and how many of them are sparse."""
    sparse: int
    experts: int


@dataclass(frozen=True)
class Sparse:
    """What has been done: this rank's sparse layers, and the ranks that share their experts (None: not shared)."""

    layers: tuple[SparseLayer, ...]
    balance: Balance
    ranks: ExpertRanks | None


def wanted(network: nn.Module, layout: Layout, asked: Experts) -> Wanted | None:
    """Look for experts in the whole model; None where it has none. Raises AnswerNo for what cannot be done."""
    config = transformers_model(network).config
    known = FAMILIES.get(config.model_type)
    stacks = family(config.model_type).modules.stacks if known else ()
    layers = find_layers(transformers_model(network), stacks)
    if not layers:
        if layout.ep > 1:
            raise _no_experts(layout, config.model_type, known is not None)
        return None
    count = int(layers[0].experts.num_experts)
    _refuse(layout, count)
    if layout.cp > 1:
        raise AnswerNo(
            f"cp={layout.cp}: mixtures of experts over context ranks were not proved to be right",
            "set parallelism.cp: 1; pp, tp, ep and dp cut this model",
        )
    policy = choose_policy(asked, config, layers)
    if policy.capacity is not None and layout.tp > 1:
        raise AnswerNo(
            "experts.capacity is not in this version where experts are cut over tp",
            "set experts.capacity: none, or parallelism.tp: 1",
        )
    return Wanted(stacks, policy, 1 + max(layer.number for layer in layers), len(layers), count)


def apply(network: nn.Module, found: Wanted, layout: Layout, mesh: DeviceMesh) -> Sparse:
    """Wrap the sparse layers that this rank holds and, with ep, keep its part of their experts. Collective."""
    layers = find_layers(transformers_model(network), found.stacks)
    ranks = expert_ranks(mesh, layout) if layout.ep > 1 else None
    if ranks is not None:
        shard(layers, ranks)
    tally = Tally(found.blocks, found.experts)
    apart = ranks is not None or found.policy.capacity is not None
    group = None if ranks is None else ranks.ep.get_group()
    for layer in layers:
        dispatch = Exchange(layer.experts, found.experts, group) if apart else None
        layer.install(found.policy, found.sparse, tally, dispatch, copies=layout.tp)
    balance = Balance(layers, found.policy, tally, counts=mesh.get_local_rank("tp") == 0)
    return Sparse(tuple(layers), balance, ranks)


def apart(sparse: Sparse, precision: Precision) -> list[Apart]:
    """What data parallelism shards by itself: experts over the ranks that hold the same ones, and routers in the type
    of trained weights where everything else is rounded.
    """
    found = []
    for layer in sparse.layers:
        if sparse.ranks is not None:
            mesh = sparse.ranks.data
            found.append(Apart(layer.experts, mesh, place=place_over(mesh.size(mesh.ndim - 1))))
        if precision.is_mixed:
            found.append(Apart(layer.router, cast=False))
    return found


def transformers_model(network: nn.Module) -> Any:  # Any: transformers is not typed here
    """The transformers model, also where adapters are injected into it."""
    return base() if callable(base := getattr(network, "get_base_model", None)) else network


def expert_ranks(mesh: DeviceMesh, layout: Layout) -> ExpertRanks:
    """Cut dp_shard · cp into ep neighbours. Collective: makes process groups."""
    rest = layout.dp_shard * layout.cp // layout.ep
    inner = joined(mesh, "dp_shard", "cp")
    outer = inner if layout.dp_replicate == 1 else DeviceMesh._concatenate([mesh["dp_replicate"], inner])
    cut = outer._unflatten(outer.ndim - 1, (rest, layout.ep), (SAME_EXPERTS, OTHER_EXPERTS))
    names = (SAME_EXPERTS,) if layout.dp_replicate == 1 else ("dp_replicate", SAME_EXPERTS)
    return ExpertRanks(cut[OTHER_EXPERTS], cut[names])


def _no_experts(layout: Layout, model_type: str, known: bool) -> AnswerNo:
    what = "has no experts" if known else "has no table of its modules in models/families"
    return AnswerNo(
        f"parallelism.ep is {layout.ep}, but {model_type} {what}",
        "set parallelism.ep: 1" + ("" if known else ", or write the table (BlockNames.experts names the parameters)"),
    )


def _refuse(layout: Layout, experts: int) -> None:
    if experts % layout.ep:
        legal = ", ".join(str(n) for n in range(1, experts + 1) if experts % n == 0)
        raise AnswerNo(
            f"parallelism.ep is {layout.ep}, which does not divide the {experts} experts", f"use one of {legal}"
        )
    if layout.ep > 1 and layout.tp > 1:
        raise AnswerNo(
            f"parallelism.ep is {layout.ep} and tp is {layout.tp}: experts are cut either over ep or over tp",
            "set one of the two to 1",
        )


def shard(layers: Sequence[SparseLayer], ranks: ExpertRanks) -> None:
    """Keep this rank's experts of each layer. Needs no communication: every rank has all, or none has memory."""
    rank, size = ranks.ep.get_local_rank(), ranks.ep.size()
    for layer in layers:
        for name, parameter in list(layer.experts.named_parameters(recurse=False)):
            own = parameter.detach().chunk(size)[rank].clone()
            part = DTensor.from_local(own, ranks.ep, [Shard(0)], run_check=False)
            setattr(layer.experts, name, nn.Parameter(part, requires_grad=parameter.requires_grad))


def place_over(size: int) -> Callable[[nn.Parameter], Shard]:
    """Along which dimension FSDP cuts an expert parameter [experts of this rank, outputs, inputs] into ``size``:
    experts where they can be dealt out evenly, else outputs, so that no rank holds more than its share.
    """

    def place(parameter: nn.Parameter) -> Shard:
        held = parameter.to_local() if isinstance(parameter, DTensor) else parameter
        return Shard(1) if held.shape[0] % size and held.shape[1] % size == 0 else Shard(0)

    return place


class Exchange:
    """Computes one layer's experts where they are. A ``Dispatch``; ``group`` None is one rank that holds them all."""

    def __init__(self, experts: nn.Module, count: int, group: dist.ProcessGroup | None):
        self._experts, self._count, self._group = experts, count, group
        self._ranks = 1 if group is None else group.size()

    def __call__(self, hidden: Tensor, chosen: Tensor, weights: Tensor, keep: Tensor | None) -> Tensor:
        """Tokens [N, H], their experts [N, k] and weights [N, k] → Σ weight · expert(token) over kept ones [N, H]."""
        tokens, top_k = chosen.shape
        flat = chosen.reshape(-1)
        sent = torch.arange(flat.numel(), device=flat.device) if keep is None else keep.reshape(-1).nonzero()[:, 0]
        sent = sent[flat[sent].argsort(stable=True)]
        counts = torch.bincount(flat[sent], minlength=self._count)
        answers = self._visit(hidden[sent // top_k], counts) * weights.reshape(-1)[sent, None]
        # One place for each assignment, then a sum: adding into tokens directly would depend on the order on a GPU.
        out = answers.new_zeros(tokens * top_k, answers.shape[-1]).index_copy(0, sent, answers)
        return out.view(tokens, top_k, -1).sum(1).to(hidden.dtype)

    def _visit(self, states: Tensor, counts: Tensor) -> Tensor:
        """``states`` sorted by expert, ``counts`` [E] of them → the experts' answers in the same order."""
        local = self._count // self._ranks
        if self._group is None:
            return self._compute(states, torch.arange(local, device=counts.device).repeat_interleave(counts))
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts, group=self._group)
        sends = counts.view(self._ranks, local).sum(1).tolist()
        receives = arriving.view(self._ranks, local).sum(1).tolist()
        visitors = _AllToAll.apply(states, receives, sends, self._group)
        numbers = torch.arange(local, device=counts.device).repeat(self._ranks).repeat_interleave(arriving)
        out: Tensor = _AllToAll.apply(self._compute(visitors, numbers), sends, receives, self._group)
        return out

    def _compute(self, states: Tensor, numbers: Tensor) -> Tensor:
        """The model's own experts on tokens [M, H] that each visit one of this rank's experts [M]."""
        held = held_here(self._experts)
        local = _HeldHere(self._experts, held, self._count // self._ranks)
        once = states.new_ones(states.shape[0], 1)
        out: Tensor = type(self._experts).forward(local, states, numbers[:, None], once)
        # Experts that nobody visits must still be in the graph: their gradient is zero, not missing, and the others
        # wait for this rank's part in the way back.
        return out if states.shape[0] else touch(out, states, *held.values())


def held_here(experts: nn.Module) -> dict[str, Tensor]:
    """A layer's parameters as this rank computes with them."""
    return {
        name: parameter.to_local() if isinstance(parameter, DTensor) else parameter
        for name, parameter in experts.named_parameters(recurse=False)
    }


class _HeldHere:
    """A layer's experts as if they were only this rank's: what the model's forward reads, with parts swapped."""

    def __init__(self, experts: nn.Module, held: dict[str, Tensor], count: int):
        self._whole = experts
        self.__dict__.update(held, num_experts=count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


class _AllToAll(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """Rows to other ranks, as many as each says; backward sends their gradients home."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, receives: list[int], sends: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.way_back = (sends, receives, group)
        return _send(rows, receives, sends, group)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None, None, None]:
        return _send(upstream[0], *ctx.way_back), None, None, None


def _send(rows: Tensor, receives: list[int], sends: list[int], group: dist.ProcessGroup) -> Tensor:
    out = rows.new_empty(sum(receives), *rows.shape[1:])
    dist.all_to_all_single(out, rows.contiguous(), receives, sends, group=group)
    return out
