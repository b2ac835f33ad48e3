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


def _shape(config: ConfigReader, name: str) -> ModelShape:
    slides = config.flag("use_sliding_window", False)
    found = windows(config, config.size("num_hidden_layers")) if slides else ()
    return decoder(config, name, "smollm3", tied=True, biases=optional_biases(config), windows=found)


SMOLLM3 = Family("smollm3", _shape, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
