"""GPT-2: learned positions, biases everywhere, tied embeddings, weights stored as (inputs, outputs)."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape

ALL_BIASES = frozenset({"q", "k", "v", "o", "up", "down"})


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden, heads = config.size("n_embd"), config.size("n_head")
    positions = config.size("n_positions", "n_ctx", default=1024)
    return ModelShape(
        name=name,
        family="gpt2",
        hidden=hidden,
        layers=config.size("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=config.size("n_inner", default=4 * hidden),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation=config.text("activation_function", default="gelu_new"),
        norm="layer",
        biases=ALL_BIASES,
        positions="learned",
        max_positions=positions,
        position_rows=positions,
        dropout=config.number("resid_pdrop", default=0.1),
    )


GPT2 = Family(
    "gpt2",
    _shape,
    ModuleNames(
        embedding="transformer.wte",
        positions=("transformer.wpe",),
        stacks=(
            Stack(
                "transformer.h",
                BlockNames(
                    {
                        "q+k+v": "attn.c_attn",
                        "o": "attn.c_proj",
                        "up": "mlp.c_fc",
                        "down": "mlp.c_proj",
                    },
                    ("ln_1", "ln_2"),
                    fused={"attn.c_attn": "stacked"},
                ),
            ),
        ),
        final_norms=("transformer.ln_f",),
        head="lm_head",
        transposed=True,
    ),
)
