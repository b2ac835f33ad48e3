"""DeepSeek V2 and V3: multi-head latent attention, a few dense layers, then many small experts beside shared ones.

The multi-token-prediction module that V3 was trained with is not part of the shape (transformers does not build it).
"""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import GATED_MLP, NORMS, decoder, modules
from trainwright.models.families.mixtral import EXPERTS
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import LatentAttention, MixtureOfExperts, ModelShape

#: With ``attention_bias`` only these carry one.
BIASED = ("q_down", "kv_down", "o")


def _read(config: ConfigReader, name: str, family: str) -> ModelShape:
    layers = config.size("num_hidden_layers")
    width = config.size("moe_intermediate_size")
    moe = MixtureOfExperts(
        experts=config.size("n_routed_experts", "num_local_experts"),
        top_k=config.size("num_experts_per_tok"),
        intermediate=width,
        layers=tuple(range(config.count("first_k_dense_replace"), layers)),
        shared_intermediate=width * config.count("n_shared_experts"),
    )
    latent = LatentAttention(
        q_rank=config.count("q_lora_rank"),
        kv_rank=config.size("kv_lora_rank"),
        nope_dim=config.size("qk_nope_head_dim"),
        rope_dim=config.size("qk_rope_head_dim"),
        value_dim=config.size("v_head_dim"),
    )
    width_of_head = latent.nope_dim + latent.rope_dim
    biases = frozenset(BIASED) if config.flag("attention_bias", False) else frozenset()
    shape = decoder(config, name, family, head_dim=width_of_head, biases=biases, latent=latent, moe=moe)
    return shape.with_(head_dim=width_of_head, kv_heads=shape.heads)


def _v2(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "deepseek_v2")


def _v3(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "deepseek_v3")


_NAMES = modules(
    BlockNames(
        {
            "q_down": "self_attn.q_a_proj",
            "q": "self_attn.q_b_proj",
            "q@uncompressed": "self_attn.q_proj",
            "kv_down": "self_attn.kv_a_proj_with_mqa",
            "kv": "self_attn.kv_b_proj",
            "o": "self_attn.o_proj",
            **GATED_MLP,
            "router": "mlp.gate",
            "shared_gate": "mlp.shared_experts.gate_proj",
            "shared_up": "mlp.shared_experts.up_proj",
            "shared_down": "mlp.shared_experts.down_proj",
        },
        NORMS,
        inner_norms=("self_attn.q_a_layernorm", "self_attn.kv_a_layernorm"),
        experts=EXPERTS,
    )
)
DEEPSEEK_V2 = Family("deepseek_v2", _v2, _NAMES)
DEEPSEEK_V3 = Family("deepseek_v3", _v3, _NAMES)
