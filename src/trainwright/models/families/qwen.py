"""Qwen 2, 2.5 and 3, dense and mixture of experts: Llama's blocks with query-key-value biases (2) or norms (3)."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import (
    ATTENTION,
    GATED_MLP,
    NORMS,
    decoder,
    modules,
    optional_biases,
    windows,
)
from trainwright.models.families.mixtral import EXPERTS
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import MixtureOfExperts, ModelShape

QK_NORMS = ("self_attn.q_norm", "self_attn.k_norm")
QWEN3_HEAD_DIM = 128


def _windows(config: ConfigReader) -> tuple[int, ...]:
    """Qwen slides only when ``use_sliding_window`` says so, and then from layer ``max_window_layers`` on."""
    if not config.flag("use_sliding_window", False):
        return ()
    layers = config.size("num_hidden_layers")
    first = config.count("max_window_layers", default=28)
    kinds = tuple("sliding_attention" if layer >= first else "full_attention" for layer in range(layers))
    return windows(config, layers, kinds, size=4096)


def sparse_layers(config: ConfigReader) -> tuple[int, ...]:
    """Layers with experts: every ``decoder_sparse_step``-th, but those of ``mlp_only_layers``."""
    step = config.size("decoder_sparse_step", default=1)
    dense = set(config.indexes("mlp_only_layers") or ())
    return tuple(
        layer for layer in range(config.size("num_hidden_layers")) if layer not in dense and (layer + 1) % step == 0
    )


def _qwen2(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "qwen2", biases=frozenset("qkv"), windows=_windows(config))


def _qwen3(config: ConfigReader, name: str) -> ModelShape:
    return decoder(
        config,
        name,
        "qwen3",
        head_dim=QWEN3_HEAD_DIM,
        biases=optional_biases(config),
        qk_norm="head",
        windows=_windows(config),
    )


def _qwen2_moe(config: ConfigReader, name: str) -> ModelShape:
    moe = MixtureOfExperts(
        experts=config.size("num_experts", default=60),
        top_k=config.size("num_experts_per_tok", default=4),
        intermediate=config.size("moe_intermediate_size"),
        layers=sparse_layers(config),
        shared_intermediate=config.size("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    biases = frozenset("qkv") if config.flag("qkv_bias", True) else frozenset()
    return decoder(config, name, "qwen2_moe", biases=biases, moe=moe)


def _qwen3_moe(config: ConfigReader, name: str) -> ModelShape:
    moe = MixtureOfExperts(
        experts=config.size("num_experts", "num_local_experts", default=128),
        top_k=config.size("num_experts_per_tok", default=8),
        intermediate=config.size("moe_intermediate_size"),
        layers=sparse_layers(config),
    )
    return decoder(config, name, "qwen3_moe", biases=optional_biases(config), qk_norm="head", moe=moe)


QWEN2 = Family("qwen2", _qwen2, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
QWEN3 = Family("qwen3", _qwen3, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS, QK_NORMS)))
QWEN2_MOE = Family(
    "qwen2_moe",
    _qwen2_moe,
    modules(
        BlockNames(
            {
                **ATTENTION,
                **GATED_MLP,
                "router": "mlp.gate",
                "shared_gate": "mlp.shared_expert.gate_proj",
                "shared_up": "mlp.shared_expert.up_proj",
                "shared_down": "mlp.shared_expert.down_proj",
                "shared_router": "mlp.shared_expert_gate",
            },
            NORMS,
            experts=EXPERTS,
        )
    ),
)
QWEN3_MOE = Family(
    "qwen3_moe",
    _qwen3_moe,
    modules(BlockNames({**ATTENTION, **GATED_MLP, "router": "mlp.gate"}, NORMS, QK_NORMS, experts=EXPERTS)),
)
