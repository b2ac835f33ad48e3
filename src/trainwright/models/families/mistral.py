"""Mistral: Llama's blocks, every layer with the same sliding window when the config sets one."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import ATTENTION, GATED_MLP, NORMS, decoder, modules
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import ModelShape


def uniform_windows(config: ConfigReader) -> tuple[int, ...]:
    """``sliding_window`` in every layer; empty when it is null, not set, or 0."""
    width = config.count("sliding_window")
    return (width,) * config.size("num_hidden_layers") if width else ()


def _shape(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "mistral", windows=uniform_windows(config))


MISTRAL = Family("mistral", _shape, modules(BlockNames({**ATTENTION, **GATED_MLP}, NORMS)))
