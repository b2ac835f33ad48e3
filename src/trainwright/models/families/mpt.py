"""MPT: no biases, ALiBi or learned positions, tied embeddings.

transformers builds the ALiBi form only; llm-foundry also trains with learned positions and with biases
(``no_bias: false``), and configs that say so are read that way.
"""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.gpt2 import ALL_BIASES
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden, heads = config.size("d_model"), config.size("n_heads")
    attention = config.inner("attn_config")
    alibi = attention.flag("alibi", True)
    bare = config.flag("no_bias", True)
    longest = config.size("max_seq_len", default=2048)
    return ModelShape(
        name=name,
        family="mpt",
        hidden=hidden,
        layers=config.size("n_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=hidden * config.size("expansion_ratio", default=4),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation="gelu",
        norm="layer_no_bias" if bare else "layer",
        qk_norm="full" if attention.flag("qk_ln", False) else "none",
        biases=frozenset() if bare else ALL_BIASES,
        positions="alibi" if alibi else "learned",
        max_positions=0 if alibi else longest,
        position_rows=0 if alibi else longest,
        dropout=config.number("resid_pdrop"),
    )


MPT = Family(
    "mpt",
    _shape,
    ModuleNames(
        embedding="transformer.wte",
        stacks=(
            Stack(
                "transformer.blocks",
                BlockNames(
                    {
                        "q+k+v": "attn.Wqkv",
                        "o": "attn.out_proj",
                        "up": "ffn.up_proj",
                        "down": "ffn.down_proj",
                    },
                    ("norm_1", "norm_2"),
                    fused={"attn.Wqkv": "stacked"},
                ),
            ),
        ),
        final_norms=("transformer.norm_f",),
        head="lm_head",
    ),
)
