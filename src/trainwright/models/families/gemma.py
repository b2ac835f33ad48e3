"""Gemma 1, 2 and 3: wide heads, tied embeddings; from 2 on four norms and alternating sliding windows per block."""

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
from trainwright.models.families.qwen import QK_NORMS
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import ModelShape

HEAD_DIM = 256
FOUR_NORMS = (*NORMS, "pre_feedforward_layernorm", "post_feedforward_layernorm")
#: The config key moved between versions of transformers; both are read.
PATTERN_KEYS = ("sliding_window_pattern", "_sliding_window_pattern")


def _alternating(config: ConfigReader, period: int) -> tuple[int, ...]:
    """Sliding in every layer but each ``period``-th."""
    layers = config.size("num_hidden_layers")
    kinds = tuple("sliding_attention" if (layer + 1) % period else "full_attention" for layer in range(layers))
    return windows(config, layers, kinds, size=4096)


def _gemma(config: ConfigReader, name: str) -> ModelShape:
    return decoder(
        config, name, "gemma", head_dim=HEAD_DIM, tied=True, biases=optional_biases(config), activation="gelu"
    )


def _gemma2(config: ConfigReader, name: str) -> ModelShape:
    return decoder(
        config,
        name,
        "gemma2",
        head_dim=HEAD_DIM,
        tied=True,
        biases=optional_biases(config),
        norms_per_layer=4,
        activation="gelu",
        windows=_alternating(config, 2),
    )


def _gemma3(config: ConfigReader, name: str) -> ModelShape:
    return decoder(
        config,
        name,
        "gemma3",
        head_dim=HEAD_DIM,
        tied=True,
        biases=optional_biases(config),
        norms_per_layer=4,
        qk_norm="head",
        activation="gelu",
        windows=_alternating(config, config.size(*PATTERN_KEYS, default=6)),
    )


_TEXT = modules(BlockNames({**ATTENTION, **GATED_MLP}, FOUR_NORMS, QK_NORMS))

GEMMA = Family("gemma", _gemma, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
GEMMA2 = Family("gemma2", _gemma2, modules(BlockNames({**ATTENTION, **GATED_MLP}, FOUR_NORMS)))
GEMMA3 = Family("gemma3", _gemma3, _TEXT)
