"""Mixtral: Mistral's attention, every MLP a mixture of experts."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import ATTENTION, NORMS, decoder, modules
from trainwright.models.families.mistral import uniform_windows
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import MixtureOfExperts, ModelShape

EXPERTS = {"gate+up": "mlp.experts.gate_up_proj", "down": "mlp.experts.down_proj"}


def _shape(config: ConfigReader, name: str) -> ModelShape:
    moe = MixtureOfExperts(
        experts=config.size("num_local_experts", "num_experts", default=8),
        top_k=config.size("num_experts_per_tok", default=2),
        intermediate=config.size("intermediate_size"),
        layers=tuple(range(config.size("num_hidden_layers"))),
    )
    return decoder(config, name, "mixtral", moe=moe, windows=uniform_windows(config))


MIXTRAL = Family("mixtral", _shape, modules(BlockNames({**ATTENTION, "router": "mlp.gate"}, NORMS, experts=EXPERTS)))
