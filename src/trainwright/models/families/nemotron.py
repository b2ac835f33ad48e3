"""Nemotron-4 and Minitron: grouped heads, squared-ReLU MLP of two matrices, layer norms with bias."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import ATTENTION, NORMS, decoder, modules, optional_biases
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    return decoder(
        config,
        name,
        "nemotron",
        biases=optional_biases(config),
        gated=False,
        norm="layer",
        activation=config.text("hidden_act", default="relu2"),
    )


NEMOTRON = Family(
    "nemotron",
    _shape,
    modules(BlockNames({**ATTENTION, "up": "mlp.up_proj", "down": "mlp.down_proj"}, NORMS)),
)
