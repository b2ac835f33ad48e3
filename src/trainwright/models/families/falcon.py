"""Falcon: 7B (one key-value head, one norm), 40B and 180B (grouped, two norms), and the older RW models (ALiBi)."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _kv_heads(config: ConfigReader, heads: int) -> int:
    if config.flag("new_decoder_architecture", False):
        return config.size("num_kv_heads", "n_head_kv", default=heads)
    return 1 if config.flag("multi_query", True) else heads


def _norms(config: ConfigReader) -> int:
    """Norms per block: the new architecture has one for attention and one for the MLP unless told otherwise."""
    if not config.flag("parallel_attn", True):
        return 2
    new = config.flag("new_decoder_architecture", False)
    return config.size("num_ln_in_parallel_attn", default=2) if new else 1


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden = config.size("hidden_size", "n_embed")
    heads = config.size("num_attention_heads", "n_head")
    alibi = config.flag("alibi", False)
    return ModelShape(
        name=name,
        family="falcon",
        hidden=hidden,
        layers=config.size("num_hidden_layers", "n_layer"),
        heads=heads,
        kv_heads=_kv_heads(config, heads),
        head_dim=hidden // heads or 1,
        intermediate=config.size("ffn_hidden_size", default=4 * hidden),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation=config.text("activation", default="gelu"),
        norm="layer",
        norms_per_layer=_norms(config),
        biases=frozenset({"q", "k", "v", "o", "up", "down"}) if config.flag("bias", False) else frozenset(),
        positions="alibi" if alibi else "rope",
        max_positions=0 if alibi else config.size("max_position_embeddings", default=2048),
        parallel_block=config.flag("new_decoder_architecture", False) or config.flag("parallel_attn", True),
        dropout=config.number("hidden_dropout"),
    )


FALCON = Family(
    "falcon",
    _shape,
    ModuleNames(
        embedding="transformer.word_embeddings",
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
                    ("input_layernorm", "post_attention_layernorm", "ln_attn", "ln_mlp"),
                    fused={"self_attention.query_key_value": "per_group"},
                ),
            ),
        ),
        final_norms=("transformer.ln_f",),
        head="lm_head",
        shared=("transformer.rotary_emb",),
    ),
)
