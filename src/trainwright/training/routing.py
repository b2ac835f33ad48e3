"""What a mixture of experts adds to training, on one rank or many: balancing, capacity, fp32 routers, and counting.

Takes the sparse layers of a transformers model as they are, with their own top-k routing; wraps their forward. It
knows nothing of ranks: what sends tokens elsewhere is handed in as an ``Exchange``.

The balancing loss of one sparse layer and one row (one packed sequence of T tokens, E experts, p the router's
probabilities) is E · Σₑ fₑ · Pₑ with fₑ = assignments to e ÷ T, a constant, and Pₑ = Σₜ pₜₑ ÷ T (Fedus et al. 2022,
equations 4 to 6, for each sequence as in DeepSeek-V3, equations 17 to 20). What is added to the loss is its mean over
sparse layers and over rows, each row weighing as much as it has targets. Unlike the same formula over a micro-batch,
this is a sum over rows: the gradient is the same whatever the number of ranks and micro-batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from trainwright.errors import AnswerNo
from trainwright.models.family import Stack
from trainwright.spec.model import Experts
from trainwright.training import attention
from trainwright.training.batches import DeviceBatch

if TYPE_CHECKING:
    from trainwright.training.parallel.context import Context

#: (tokens [N, H], experts' numbers [N, k], weights [N, k], which assignments count [N, k] or None) → [N, H].
Dispatch = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
#: Buffer of routers that are balanced by a bias on the choice of experts (DeepSeek-V3).
BIAS = "e_score_correction_bias"


@dataclass(frozen=True)
class Policy:
    """How experts are balanced: what ``spec.experts`` and the model's own config come to."""

    coefficient: float
    """Of the balancing loss; 0 for none."""
    bias_rate: float
    """Step of the routers' bias; 0 for none."""
    capacity: float | None
    """Assignments that an expert takes from a row, relative to an even share."""


def choose_policy(asked: Experts, config: Any, layers: Sequence[SparseLayer]) -> Policy:
    """``auto`` is what the model was made for. Raises AnswerNo for a bias that its routers do not have."""
    biased = all(hasattr(layer.router, BIAS) for layer in layers)
    own = _own_coefficient(config)
    balance = asked.balance
    if balance == "auto":
        balance = "bias" if biased else "loss" if asked.coefficient or own else "none"
    if balance == "bias" and not biased:
        raise AnswerNo(
            f"experts.balance: bias needs routers that choose by score plus bias, and those of {config.model_type} "
            "have none",
            "use experts.balance: loss, or none",
        )
    coefficient = own if asked.coefficient is None else asked.coefficient
    if balance == "loss" and not coefficient:
        raise AnswerNo(
            f"experts.balance: loss needs a coefficient, and the config of {config.model_type} names none",
            "set experts.coefficient, for example 0.001",
        )
    return Policy(
        coefficient if balance == "loss" else 0.0, asked.bias_rate if balance == "bias" else 0.0, asked.capacity
    )


def _own_coefficient(config: Any) -> float:
    """Both names are for the formula above; DeepSeek-V2's has the assignments divided by k as well."""
    if (alpha := getattr(config, "aux_loss_alpha", None)) is not None:
        return float(alpha) / int(config.num_experts_per_tok)
    return float(getattr(config, "router_aux_loss_coef", None) or 0.0)


class Tally:
    """Assignments by layer and expert, dropped ones, and the balancing loss, summed until they are taken.

    Each micro-batch counts once, however often recomputation runs its layers again.
    """

    def __init__(self, layers: int, experts: int):
        self._shape = (layers, experts + 3)
        self._layers: list[int] = []
        self._rows: list[Tensor] = []

    def add(self, layer: int, assigned: Tensor, dropped: Tensor, targets: Tensor, loss: Tensor) -> None:
        """One layer's counts [E], its dropped assignments, and Σ targets and Σ targets · loss over its rows."""
        self._layers.append(layer)
        self._rows.append(torch.cat([assigned.double(), torch.stack([dropped, targets, loss]).double()]))
        if len(self._rows) > 4096:  # what is logged rarely must not pile up
            total = self.take()
            self._layers, self._rows = list(range(len(total))), list(total)

    def take(self) -> Tensor:
        """Everything since the last call as fp64 [layers, experts + 3] on the CPU; the last three columns are
        (dropped, targets, targets · loss).
        """
        total = torch.zeros(self._shape, dtype=torch.float64)
        layers, rows = self._layers, self._rows
        self._layers, self._rows = [], []
        if rows:
            total.index_add_(0, torch.tensor(layers), torch.stack([row.cpu() for row in rows]))
        return total


class Balance:
    """What the trainer asks of a mixture of experts after each step. Its methods are collective over all ranks.

    ``counts`` is true on one rank of those that compute the same tokens in the same layers.
    """

    def __init__(self, layers: Sequence[SparseLayer], policy: Policy, tally: Tally, counts: bool):
        self._layers, self._policy, self._tally, self._counts = layers, policy, tally, counts
        self._since: Tensor | None = None

    def after_step(self) -> None:
        """Move the routers' bias towards experts that had less than their share of the step's tokens."""
        if not self._policy.bias_rate:
            return
        counts = self._sum()
        for layer in self._layers:
            load = counts[layer.number, :-3]
            bias = getattr(layer.router, BIAS)
            bias += (self._policy.bias_rate * (load.mean() - load).sign()).to(bias)

    def report(self) -> dict[str, Any]:
        """Since the last report: ``load``, each expert's share of assignments over all layers; ``imbalance``, the
        largest load of any layer's expert ÷ an even share; ``dropped`` assignments; ``balance_loss``, the mean of
        the balancing loss without its coefficient (k, the experts of a token, when all are even).
        """
        self._sum()
        assert self._since is not None
        counts, self._since = self._since, None
        loads, (dropped, targets, loss) = counts[:, :-3], counts[:, -3:].unbind(1)
        sparse = loads.sum(1) > 0
        if not bool(sparse.any()):
            return {}
        loads = loads[sparse]
        seen = float(targets.sum()) / int(sparse.sum())
        return {
            "load": [round(share, 6) for share in (loads.sum(0) / loads.sum()).tolist()],
            "imbalance": round(float((loads.amax(1) / loads.mean(1)).max()), 4),
            "dropped": int(dropped.sum()),
            **({"balance_loss": float(loss.sum()) / seen} if self._policy.coefficient and seen else {}),
        }

    def _sum(self) -> Tensor:
        """Counts of all ranks since the last call; they are also kept for the report."""
        counts = self._tally.take()
        if not self._counts:
            counts.zero_()
        dist.all_reduce(counts)
        self._since = counts if self._since is None else self._since + counts
        return counts


@dataclass(eq=False)
class Routing:
    """What one micro-batch's sparse layers must know. Travels with its ``Documents``, so recomputation finds it."""

    rows: int
    real: Tensor | None
    """[B, T]: true on tokens, false on padding; None when all are tokens. T are the positions of this rank."""
    targets: Tensor
    """[B]: targets of each row, wherever their positions are."""
    weight: float
    """Of one target's loss."""
    own_targets: Tensor
    """[]: targets of this rank's positions."""
    group: dist.ProcessGroup | None = None
    """Ranks that have the other positions of the rows."""
    counted: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, batch: DeviceBatch, weight: float, context: Context | None = None) -> Routing:
        """That of a micro-batch whose targets weigh ``weight`` each. Collective over the ranks of ``context``."""
        rows, length = batch.input_ids.shape
        real = None if batch.document_ids is None else batch.document_ids >= 0
        targets = torch.bincount(batch.targets // length, minlength=rows)
        own = targets.sum()
        if context is None:
            return cls(rows, real, targets, weight, own)
        if real is not None:
            parts = real.chunk(2 * context.cut.size, 1)
            real = torch.cat([parts[number] for number in context.cut.chunks()], 1)
        dist.all_reduce(targets, group=context.group)
        return cls(rows, real, targets, weight, own, context.group)

    def over_positions(self, assigned: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Counts by row, [B, E] and [B], over all positions of the rows."""
        if self.group is None:
            return assigned, tokens
        both = torch.cat([assigned, tokens[:, None]], 1)
        dist.all_reduce(both, group=self.group)
        return both[:, :-1], both[:, -1]


class SparseLayer:
    """One block's router and experts, wrapped. Not a module: names in state dicts stay those of the model."""

    def __init__(self, number: int, block: nn.Module, router: nn.Module, experts: nn.Module):
        self.number, self.block, self.router, self.experts = number, block, router, experts
        self.dispatch: Dispatch | None = None
        self.policy = Policy(0.0, 0.0, None)
        self._current: Routing | None = None
        self._keep: Tensor | None = None

    def install(
        self, policy: Policy, sparse_layers: int, tally: Tally, dispatch: Dispatch | None, copies: int = 1
    ) -> None:
        """Replace the forwards. ``sparse_layers`` is the number of them in the whole model; without ``dispatch`` the
        model's own experts compute, as they are. ``copies`` ranks compute the same routing, and their gradients are
        summed.
        """
        self.policy, self._tally, self.dispatch = policy, tally, dispatch
        self._share, self._attached = 1.0 / sparse_layers, policy.coefficient / copies
        self._in_block, self._choose = self.block.forward, self.router.forward
        self.block.forward, self.router.forward = self._block, self._route
        if dispatch is not None:
            self.experts.forward = self._experts

    def _block(self, *args: Any, **kwargs: Any) -> Any:
        documents = kwargs.get(attention.ARGUMENT)
        self._current = None if documents is None else documents.routing
        try:
            return self._in_block(*args, **kwargs)
        finally:
            self._current = self._keep = None

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch is not typed here
    def _route(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The model's own choice, computed in the type its weights are kept in."""
        with torch.autocast(hidden.device.type, enabled=False):
            logits, weights, chosen = self._choose(hidden.to(self.router.weight.dtype))
        routing = self._current
        if routing is None or not self.router.training:
            return logits, weights, chosen
        experts = logits.shape[-1]
        places = _places(routing, chosen, experts)
        assigned = torch.bincount(places.flatten(), minlength=routing.rows * (experts + 1))
        assigned = assigned.view(routing.rows, experts + 1)[:, :experts]
        tokens = _tokens(routing, chosen.shape[0])
        dropped = assigned.new_zeros(())
        if routing.real is not None or self.policy.capacity is not None:
            keep = torch.ones_like(chosen, dtype=torch.bool)
            if routing.real is not None:
                keep &= routing.real.reshape(-1, 1)
            if self.policy.capacity is not None:
                kept = keep & _within(places, assigned, tokens, self.policy.capacity, chosen.shape[1])
                dropped = keep.sum() - kept.sum()
                keep = kept
            self._keep = keep
        loss = logits.new_zeros(())
        if self.policy.coefficient:
            by_row = balance(self._probabilities(logits), *routing.over_positions(assigned, tokens), routing)
            loss = (by_row * routing.targets).sum() * self._share
            if weights.requires_grad:
                weights = _Attach.apply(weights, loss * (self._attached * routing.weight))
        if self.number not in routing.counted:
            routing.counted.add(self.number)
            self._tally.add(self.number, assigned.sum(0), dropped, routing.own_targets, loss.detach())
        return logits, weights, chosen

    def _probabilities(self, logits: Tensor) -> Tensor:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        if not hasattr(self.router, BIAS):
            return wide.softmax(-1)
        scores = wide.sigmoid()
        return scores / scores.sum(-1, keepdim=True)

    @torch.compiler.disable  # type: ignore[untyped-decorator]  # torch is not typed here
    def _experts(self, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        assert self.dispatch is not None
        return self.dispatch(hidden, chosen, weights, self._keep)


def balance(probabilities: Tensor, assigned: Tensor, tokens: Tensor, routing: Routing) -> Tensor:
    """Balancing loss of each row, [B], or this rank's part of it: ``probabilities`` [B·T, E] are those of its
    positions, ``assigned`` [B, E] and ``tokens`` [B] count all of a row's.
    """
    experts = probabilities.shape[-1]
    by_row = probabilities.view(routing.rows, -1, experts)
    if routing.real is not None:
        by_row = by_row * routing.real[..., None]
    many = tokens.clamp(min=1).to(by_row.dtype)
    return experts * (by_row.sum(1) * assigned).sum(-1) / (many * many)


def _tokens(routing: Routing, positions: int) -> Tensor:
    """Tokens of each row, [B]."""
    if routing.real is not None:
        return routing.real.sum(1)
    return torch.full_like(routing.targets, positions // routing.rows)


def _places(routing: Routing, chosen: Tensor, experts: int) -> Tensor:
    """row · (experts + 1) + expert of each assignment, [B·T, k]; padding goes to an expert that does not exist."""
    if routing.real is not None:
        chosen = chosen.masked_fill(~routing.real.reshape(-1, 1), experts)
    rows = torch.arange(routing.rows, device=chosen.device).repeat_interleave(chosen.shape[0] // routing.rows)
    return rows[:, None] * (experts + 1) + chosen


def _within(places: Tensor, assigned: Tensor, tokens: Tensor, factor: float, top_k: int) -> Tensor:
    """True for assignments that their expert has room for; earlier positions of a row come first, so that no token
    is dropped because of a later one.
    """
    rows, experts = assigned.shape
    flat = places.flatten()
    order = flat.argsort(stable=True)
    many = torch.bincount(flat, minlength=rows * (experts + 1))
    first = many.cumsum(0) - many
    rank = torch.empty_like(flat)
    rank[order] = torch.arange(flat.numel(), device=flat.device) - first[flat[order]]
    room = torch.ceil(tokens * (factor * top_k / experts)).long()
    return (rank < room[flat // (experts + 1)]).view_as(places)


class _Attach(torch.autograd.Function):  # type: ignore[misc]  # torch is not typed here
    """Gives its first argument; backward sends a gradient of one into the second. So a layer's own loss needs no way
    out of the model, and a pipeline's stage none to the last one.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, loss: Tensor) -> Tensor:
        ctx.like = loss.detach()
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        return upstream[0], torch.ones_like(ctx.like)


def find_layers(network: nn.Module, stacks: Sequence[Stack]) -> list[SparseLayer]:
    """The sparse layers of a transformers model (or of what a pipeline's stage holds of it), in order."""
    found = []
    for stack in stacks:
        names = stack.block
        if not names.experts:
            continue
        experts_path = next(iter(names.experts.values())).rpartition(".")[0]
        for name, block in _submodule(network, stack.path).named_children():
            router, experts = _submodule(block, names.linears["router"]), _submodule(block, experts_path)
            if experts is not None:
                found.append(SparseLayer(int(name), block, router, experts))
    return found


def _submodule(module: nn.Module, path: str) -> Any:
    """The module at a path; None where there is none (a dense layer among sparse ones)."""
    for part in path.split("."):
        module = getattr(module, part, None)
        if module is None:
            return None
    return module
