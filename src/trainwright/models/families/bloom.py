"""BLOOM: ALiBi, a norm after the embedding, biases everywhere, tied embeddings."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.gpt2 import ALL_BIASES
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden, heads = config.size("hidden_size", "n_embed"), config.size("n_head", "num_attention_heads")
    return ModelShape(
        name=name,
        family="bloom",
        hidden=hidden,
        layers=config.size("n_layer", "num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=4 * hidden,
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation="gelu",
        norm="layer",
        embedding_norm=True,
        biases=ALL_BIASES,
        positions="alibi",
        dropout=config.number("hidden_dropout"),
    )


BLOOM = Family(
    "bloom",
    _shape,
    ModuleNames(
        embedding="transformer.word_embeddings",
        embedding_norms=("transformer.word_embeddings_layernorm",),
        stacks=(
            Stack(
                "transformer.h",
                BlockNames(
                    {
                        "q+k+v": "self_attention.query_key_value",
                        "o": "self_attention.dense",
                        "up": "mlp.dense_h_to_4h",
                        "down": "mlp.dense_4h_to_h",
                    },
                    ("input_layernorm", "post_attention_layernorm"),
                    fused={"self_attention.query_key_value": "per_group"},
                ),
            ),
        ),
        final_norms=("transformer.ln_f",),
        head="lm_head",
    ),
)
