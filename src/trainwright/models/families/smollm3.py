"""SmolLM 3: Llama's blocks, some layers without rotary positions. SmolLM 1 and 2 are of type ``llama``."""

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
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import ModelShape


def _windows(config: ConfigReader) -> tuple[int, ...]:
    """Where windows are switched on: the layers without rotary positions, each fourth by default."""
    if not config.flag("use_sliding_window", False):
        return ()
    layers = config.size("num_hidden_layers")
    every = config.size("no_rope_layer_interval", default=4)
    rotary = config.indexes("no_rope_layers") or [(layer + 1) % every for layer in range(layers)]
    return windows(config, layers, tuple("full_attention" if rope else "sliding_attention" for rope in rotary))


def _shape(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "smollm3", tied=True, biases=optional_biases(config), windows=_windows(config))


SMOLLM3 = Family("smollm3", _shape, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
