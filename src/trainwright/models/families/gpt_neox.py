"""GPT-NeoX and Pythia: parallel blocks with two norms, biases, rotary positions, untied head."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import decoder
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    attention = ("q", "k", "v", "o") if config.flag("attention_bias", True) else ()
    shape = decoder(
        config,
        name,
        "gpt_neox",
        biases=frozenset({*attention, "up", "down"}),
        gated=False,
        norm="layer",
        parallel_block=config.flag("use_parallel_residual", True),
        activation=config.text("hidden_act", default="gelu"),
        dropout=config.number("hidden_dropout"),
    )
    return shape.with_(kv_heads=shape.heads)


GPT_NEOX = Family(
    "gpt_neox",
    _shape,
    ModuleNames(
        embedding="gpt_neox.embed_in",
        stacks=(
            Stack(
                "gpt_neox.layers",
                BlockNames(
                    {
                        "q+k+v": "attention.query_key_value",
                        "o": "attention.dense",
                        "up": "mlp.dense_h_to_4h",
                        "down": "mlp.dense_4h_to_h",
                    },
                    ("input_layernorm", "post_attention_layernorm"),
                    fused={"attention.query_key_value": "per_group"},
                ),
            ),
        ),
        final_norms=("gpt_neox.final_layer_norm",),
        head="lm_head",
        shared=("gpt_neox.rotary_emb",),
    ),
)
