"""Training by DeepSpeed alone, as a user of it would: two steps of AdamW, then its own ``save_checkpoint``."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

#: Of each parameter: its value (under ``""``) and the optimizer's averages.
Values = dict[str, dict[str, Tensor]]


def train_and_save(
    folder: str, model: str, stage: int, precision: str, own: dict[str, Any], frozen: bool
) -> dict[str, Any]:
    """Save into ``folder``; gives every rank's view of each trained parameter and its averages, whole. Collective."""
    from transformers import AutoModelForCausalLM

    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed
    from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

    deepspeed.ops.__compatible_ops__ = {}
    network = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    for parameter in network.model.layers[0].parameters() if frozen else ():
        parameter.requires_grad_(False)
    matrices = [p for p in network.parameters() if p.requires_grad and p.ndim > 1]
    vectors = [p for p in network.parameters() if p.requires_grad and p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], lr=1e-2)
    config = {
        "train_micro_batch_size_per_gpu": 2, "steps_per_print": 10**9,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0, **own},
        **({} if precision == "fp32" else {precision: {"enabled": True}}),
    }  # fmt: skip
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=config, dist_init_required=False)
    draw = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(2):
        tokens = torch.randint(1, 100, (2, 12), generator=draw)
        engine.backward(engine(input_ids=tokens, labels=tokens).loss)
        engine.step()
    engine.save_checkpoint(folder)
    if stage < 3:  # it lets only the first group's parameters find their averages
        engine.optimizer._hp_optimizer_states_linked = False
        engine.optimizer._lazy_init_hp_params_optimizer_state()
    values: Values = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            shape = getattr(parameter, "ds_shape", parameter.shape)
            values[name] = {"": safe_get_full_fp32_param(parameter).view(shape).clone()}
            if "round_robin_gradients" in own:  # it looks for both in the wrong place; a model in fp32 has one itself
                values[name][""] = parameter.detach().clone()
            for key in ("exp_avg", "exp_avg_sq"):
                values[name][key] = safe_get_full_optimizer_state(parameter, key).view(shape).clone()
    return values
