"""GPT-J: parallel blocks with one norm, biases in the MLP and the head only, rotary positions."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _shape(config: ConfigReader, name: str) -> ModelShape:
    hidden, heads = config.size("n_embd"), config.size("n_head")
    return ModelShape(
        name=name,
        family="gptj",
        hidden=hidden,
        layers=config.size("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=config.size("n_inner", default=4 * hidden),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", False),
        gated=False,
        activation=config.text("activation_function", default="gelu_new"),
        norm="layer",
        norms_per_layer=1,
        biases=frozenset({"up", "down", "head"}),
        max_positions=config.size("n_positions", default=2048),
        parallel_block=True,
        dropout=config.number("resid_pdrop"),
    )


GPTJ = Family(
    "gptj",
    _shape,
    ModuleNames(
        embedding="transformer.wte",
        stacks=(
            Stack(
                "transformer.h",
                BlockNames(
                    {
                        "q": "attn.q_proj",
                        "k": "attn.k_proj",
                        "v": "attn.v_proj",
                        "o": "attn.out_proj",
                        "up": "mlp.fc_in",
                        "down": "mlp.fc_out",
                    },
                    ("ln_1",),
                ),
            ),
        ),
        final_norms=("transformer.ln_f",),
        head="lm_head",
    ),
)
