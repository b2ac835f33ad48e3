"""OPT: learned positions with two unused rows, biases everywhere, ReLU, tied embeddings."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.gpt2 import ALL_BIASES
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape

UNUSED_ROWS = 2


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden, heads = config.size("hidden_size"), config.size("num_attention_heads")
    if config.size("word_embed_proj_dim", default=hidden) != hidden:
        config.problem(
            "word_embed_proj_dim",
            "differs from hidden_size (OPT-350M)",
            "projected embeddings are not modelled; use the generic path: hidden=…,layers=…,heads=…,params=…",
        )
    positions = config.size("max_position_embeddings", default=2048)
    return ModelShape(
        name=name,
        family="opt",
        hidden=hidden,
        layers=config.size("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=config.size("ffn_dim"),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation=config.text("activation_function", default="relu"),
        norm="layer",
        biases=ALL_BIASES if config.flag("enable_bias", True) else frozenset(),
        positions="learned",
        max_positions=positions,
        position_rows=positions + UNUSED_ROWS,
        dropout=config.number("dropout", default=0.1),
    )


OPT = Family(
    "opt",
    _shape,
    ModuleNames(
        embedding="model.decoder.embed_tokens",
        positions=("model.decoder.embed_positions",),
        stacks=(
            Stack(
                "model.decoder.layers",
                BlockNames(
                    {
                        "q": "self_attn.q_proj",
                        "k": "self_attn.k_proj",
                        "v": "self_attn.v_proj",
                        "o": "self_attn.out_proj",
                        "up": "fc1",
                        "down": "fc2",
                    },
                    ("self_attn_layer_norm", "final_layer_norm"),
                ),
            ),
        ),
        final_norms=("model.decoder.final_layer_norm",),
        head="lm_head",
    ),
)
