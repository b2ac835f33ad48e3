"""OLMo 2: Llama's matrices, but norms after attention and MLP, and norms over whole queries and keys."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import ATTENTION, GATED_MLP, decoder, modules, optional_biases
from trainwright.models.families.qwen import QK_NORMS
from trainwright.models.family import BlockNames, Family
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "olmo2", biases=optional_biases(config), qk_norm="full")


OLMO2 = Family(
    "olmo2",
    _shape,
    modules(
        BlockNames({**ATTENTION, **GATED_MLP}, ("post_attention_layernorm", "post_feedforward_layernorm"), QK_NORMS)
    ),
)
