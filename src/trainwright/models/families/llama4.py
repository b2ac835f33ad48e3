"""Llama 4's text model: experts in every or every second layer with one shared expert, chunked attention in most.

A multimodal config is read through its ``text_config``; the vision tower is not part of the shape.
"""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import ATTENTION, NORMS, decoder, modules, optional_biases
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import MixtureOfExperts, ModelShape


def _sparse_layers(config: ConfigReader) -> tuple[int, ...]:
    listed = config.indexes("moe_layers")
    if listed is not None:
        return tuple(listed)
    step = config.size("interleave_moe_layer_step", default=1)
    return tuple(range(step - 1, config.size("num_hidden_layers"), step))


def _windows(config: ConfigReader) -> tuple[int, ...]:
    """Layers with rotary positions attend within chunks; every fourth (``no_rope_layers`` 0) attends to all."""
    layers = config.size("num_hidden_layers")
    chunk = config.count("attention_chunk_size", default=8192)
    every = config.size("no_rope_layer_interval", default=4)
    rotary = config.indexes("no_rope_layers") or [(layer + 1) % every for layer in range(layers)]
    return tuple(chunk if uses_rope else 0 for uses_rope in rotary[:layers]) if chunk else ()


def _shape(config: ConfigReader, name: str) -> ModelShape:
    width = config.size("intermediate_size", default=8192)
    moe = MixtureOfExperts(
        experts=config.size("num_local_experts", default=16),
        top_k=config.size("num_experts_per_tok", default=1),
        intermediate=width,
        layers=_sparse_layers(config),
        shared_intermediate=width,
    )
    return decoder(
        config,
        name,
        "llama4",
        head_dim=128,
        biases=optional_biases(config),
        moe=moe,
        windows=_windows(config),
        chunked=True,
    ).with_(intermediate=config.size("intermediate_size_mlp", default=16384))


LLAMA4 = Family(
    "llama4",
    _shape,
    modules(
        BlockNames(
            {
                **ATTENTION,
                "gate": "feed_forward.gate_proj",
                "up": "feed_forward.up_proj",
                "down": "feed_forward.down_proj",
                "router": "feed_forward.router",
                "shared_gate": "feed_forward.shared_expert.gate_proj",
                "shared_up": "feed_forward.shared_expert.up_proj",
                "shared_down": "feed_forward.shared_expert.down_proj",
            },
            NORMS,
            experts={"gate+up": "feed_forward.experts.gate_up_proj", "down": "feed_forward.experts.down_proj"},
        )
    ),
)
