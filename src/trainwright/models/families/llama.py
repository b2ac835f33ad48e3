"""Llama 2, 3 and everything built like them: pre-norm RMS blocks, rotary positions, gated MLP, grouped heads.

``decoder`` is the reading that the other families of this kind start from.
"""

from __future__ import annotations

from typing import Any

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape

ATTENTION = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
}
GATED_MLP = {"gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj"}
NORMS = ("input_layernorm", "post_attention_layernorm")


def decoder(
    config: ConfigReader,
    name: str,
    family: str,
    *,
    head_dim: int = 0,
    tied: bool = False,
    biases: frozenset[str] = frozenset(),
    **other: Any,
) -> ModelShape:
    """A decoder with Llama's key names. ``head_dim`` 0: hidden ÷ heads unless the config says; the rest are defaults.

    ``other`` are fields of ``ModelShape`` that the family fixes.
    """
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    if not head_dim and config.values.get("head_dim") is None and hidden % heads:
        config.problem("num_attention_heads", f"is {heads}", f"it must divide hidden_size = {hidden}")
    kv_heads = config.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        config.problem("num_key_value_heads", f"is {kv_heads}", f"it must divide num_attention_heads = {heads}")
    fixed: dict[str, Any] = {
        "activation": config.text("hidden_act", "hidden_activation", default="silu"),
        "max_positions": config.size("max_position_embeddings", default=2048),
        "dropout": config.number("attention_dropout"),
        **other,
    }
    return ModelShape(
        name=name,
        family=family,
        hidden=hidden,
        layers=config.size("num_hidden_layers"),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=config.size("head_dim", default=head_dim or hidden // heads or 1),
        intermediate=config.size("intermediate_size"),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", tied),
        biases=biases,
        **fixed,
    )


def optional_biases(config: ConfigReader, attention: tuple[str, ...] = ("q", "k", "v", "o")) -> frozenset[str]:
    """Biases that ``attention_bias`` and ``mlp_bias`` switch on."""
    named = attention if config.flag("attention_bias", False) else ()
    return frozenset({*named, *(("gate", "up", "down") if config.flag("mlp_bias", False) else ())})


def windows(config: ConfigReader, layers: int, default: tuple[str, ...] = (), size: int = 0) -> tuple[int, ...]:
    """Attention window per layer from ``layer_types`` (or its ``default``); empty when every layer is full.

    ``size`` is the window where the config gives none.
    """
    kinds = config.items("layer_types") or list(default)
    if kinds and len(kinds) < layers:
        config.problem("layer_types", f"has {len(kinds)} entries", f"one per layer is needed: {layers}")
        return ()
    width = config.count("sliding_window", default=size)
    found = tuple(width if kind == "sliding_attention" else 0 for kind in kinds[:layers])
    return found if any(found) else ()


def modules(block: BlockNames) -> ModuleNames:
    """Names around the blocks that all of these families share."""
    return ModuleNames(
        embedding="model.embed_tokens",
        stacks=(Stack("model.layers", block),),
        final_norms=("model.norm",),
        head="lm_head",
        shared=("model.rotary_emb",),
    )


def _shape(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "llama", biases=optional_biases(config))


LLAMA = Family("llama", _shape, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
