"""Mixtures of experts: tiny ones, and what one process computes with them by transformers' own code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

from trainwright.data.order import GlobalOrder
from trainwright.training.parallel.expert import Exchange, ExpertRanks, shard
from trainwright.training.routing import BIAS, SparseLayer

if TYPE_CHECKING:
    from parity.cases import Case

_SIZES = {
    "vocab_size": 121, "hidden_size": 24, "intermediate_size": 20, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2, "pad_token_id": 0,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
#: What adapters are put on: all linear modules but the head. peft's all-linear takes experts too.
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
#: What each model of ``Case.model`` is made of besides ``_SIZES``.
KINDS: dict[str, dict[str, Any]] = {
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.3},
    "qwen3_moe": {
        "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 12, "router_aux_loss_coef": 0.3,
        "head_dim": 4, "norm_topk_prob": True, "mlp_only_layers": [1],
    },
    "qwen2_moe": {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "router_aux_loss_coef": 0.3,
        "shared_expert_intermediate_size": 16,
    },
    "deepseek_v3": {
        "n_routed_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 12, "first_k_dense_replace": 1,
        "n_group": 2, "topk_group": 1, "n_shared_experts": 1, "kv_lora_rank": 8, "q_lora_rank": None,
        "qk_nope_head_dim": 4, "qk_rope_head_dim": 4, "v_head_dim": 4, "num_key_value_heads": 6,
    },
}  # fmt: skip


def config(case: Case) -> Any:
    """The case's config."""
    from transformers import AutoConfig

    values = {**_SIZES, **KINDS[case.model], "num_hidden_layers": case.layers, "tie_word_embeddings": case.tied}
    return AutoConfig.for_model(case.model, **{**values, **case.fields})


def keep_precision(model: nn.Module) -> None:
    """Routers and norms of transformers round to fp32; 1e-16 on the way in would become 1e-8 on the way out."""
    for module in model.modules():
        kind = type(module)
        if kind.__name__.endswith("RMSNorm") and not kind.__name__.startswith("Gemma"):
            kind.forward = _norm
        elif kind.__name__.startswith("DeepseekV3") and hasattr(module, BIAS):
            kind.forward = _deepseek_route
        elif kind.__name__.endswith("TopKRouter"):
            kind.forward = _route


def _norm(self: Any, hidden: Tensor) -> Tensor:
    weight: Tensor = self.weight
    return weight * (hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon))


def _route(self: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logits = F.linear(hidden.reshape(-1, self.hidden_dim), self.weight)
    weights, chosen = logits.softmax(-1).topk(self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True):
        weights = weights / weights.sum(-1, keepdim=True)
    return logits, weights, chosen


def _deepseek_route(self: Any, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    logits = F.linear(hidden.reshape(-1, self.hidden_dim), self.weight)
    scores = logits.sigmoid()
    groups = (scores + self.e_score_correction_bias).view(-1, self.num_group, self.num_experts // self.num_group)
    best = groups.topk(2, dim=-1)[0].sum(-1).topk(self.topk_group, dim=-1)[1]
    allowed = torch.zeros_like(groups[..., 0], dtype=torch.bool).scatter_(1, best, True)
    chosen = groups.masked_fill(~allowed[..., None], -torch.inf).flatten(1).topk(self.top_k, dim=-1)[1]
    weights = scores.gather(1, chosen)
    if self.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return logits, weights * self.routed_scaling_factor, chosen


def routers(model: nn.Module) -> list[Any]:
    """The routers, in order."""
    return [module for module in model.modules() if type(module).__name__.lower().endswith("topkrouter")]


def reference(case: Case) -> list[dict[str, Any]]:
    """Steps by one process: transformers' own experts and attention, document by document, and plain autograd.

    The balancing loss is written out here once more, from its definition.
    """
    from parity.cases import network, sequences

    model = network(case, False, torch.float64).train()
    gates = routers(model)
    seen: list[list[tuple[Tensor, Tensor]]] = [[] for _ in gates]
    for gate, outputs in zip(gates, seen, strict=True):
        gate.register_forward_hook(lambda module, given, out, to=outputs: to.append((out[0], out[2])))
    biased = hasattr(gates[0], BIAS)
    coefficient = 0.0 if biased else float(model.config.router_aux_loss_coef)
    rows, order = sequences(case), GlobalOrder(case.samples, 3)
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    results = []
    for start in range(0, min(case.samples, case.steps * case.batch), case.batch):
        total, count = torch.zeros((), dtype=torch.float64), 0
        cross = 0.0
        loads = [torch.zeros(gate.weight.shape[0], dtype=torch.float64) for gate in gates]
        tokens = 0
        for number in order.indices(start, min(start + case.batch, case.samples)):
            row, targets = rows[int(number)], 0
            for document in np.unique(row.document_ids):
                where = row.document_ids == document
                ids = torch.tensor(row.input_ids[where].astype(np.int64))[None]
                wanted = torch.tensor(row.loss_mask[where])[1:]
                logits = model(input_ids=ids, use_cache=False).logits[0, :-1]
                loss = F.cross_entropy(logits[wanted], ids[0, 1:][wanted], reduction="sum")
                total, cross, targets = total + loss, cross + float(loss), targets + int(wanted.sum())
            balancing = []
            for load, outputs in zip(loads, seen, strict=True):
                scores = torch.cat([s for s, _ in outputs])
                share = F.one_hot(torch.cat([c for _, c in outputs]), scores.shape[1]).sum((0, 1)).double()
                load += share
                balancing.append(scores.shape[1] * (share / len(scores) * scores.softmax(-1).mean(0)).sum())
                outputs.clear()
            total = total + targets * coefficient * torch.stack(balancing).mean()
            count, tokens = count + targets, tokens + len(row.input_ids)
        loss = total / count
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        grads = {n: torch.zeros_like(p) if g is None else g for (n, p), g in zip(trained.items(), found, strict=True)}
        norm = float(torch.stack([g.square().sum() for g in grads.values()]).sum().sqrt())
        factor = 1.0 if case.clip is None else min(1.0, case.clip / (norm + 1e-6))
        with torch.no_grad():
            for name, parameter in trained.items():
                parameter -= case.lr * factor * grads[name]
            for gate, load in zip(gates, loads, strict=True):
                if biased:
                    gate.e_score_correction_bias += 0.001 * (load.mean() - load).sign()
        results.append(
            {
                "loss": cross / count, "norm": norm, "tokens": tokens, "gradients": grads, "loads": loads,
                "parameters": {name: p.detach().clone() for name, p in trained.items()},
            }
        )  # fmt: skip
    return results


def exchange(keep_half: bool) -> dict[str, float]:
    """Errors of an exchange against the model's own experts, when every token of every rank visits rank 0's experts.

    Collective. Gradients of tokens, weights and this rank's experts, of a sum that weighs tokens differently.
    """
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    from parity.cases import Case

    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)
    built = config(Case({}, model="mixtral"))
    built._experts_implementation = "eager"
    own, whole = MixtralExperts(built).double(), MixtralExperts(built).double()
    for parameter in whole.parameters():
        nn.init.normal_(parameter, std=0.3)
    own.load_state_dict(whole.state_dict())
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("ep",))
    shard([SparseLayer(0, nn.Module(), nn.Module(), own)], ExpertRanks(mesh, mesh))
    local = whole.num_experts // size
    torch.manual_seed(10 + rank)
    tokens = 5 + rank
    hidden = torch.randn(tokens, 24, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(tokens, 2, dtype=torch.float64, requires_grad=True)
    chosen = torch.rand(tokens, local).topk(2, dim=-1)[1]
    keep = torch.rand(tokens, 2) < 0.5 if keep_half else None
    scale = torch.randn(tokens, 24, dtype=torch.float64)
    out = Exchange(own, whole.num_experts, mesh.get_group())(hidden, chosen, weights, keep)
    got = torch.autograd.grad((out * scale).sum(), [hidden, weights, *own.parameters()])
    counted = weights if keep is None else weights * keep
    expected = whole(hidden, chosen, counted)
    want = torch.autograd.grad((expected * scale).sum(), [hidden, weights, *whole.parameters()])
    errors = {"out": float((out - expected).abs().max())}
    for name, one, other in zip(("hidden", "weights"), got, want, strict=False):
        errors[name] = float((one - other).abs().max())
    for (name, _), one, other in zip(own.named_parameters(), got[2:], want[2:], strict=True):
        dist.all_reduce(other)
        errors[name] = float((one.to_local() - other.chunk(size)[rank]).abs().max())
    return errors
