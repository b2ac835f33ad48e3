"""Phi: 3 and 4 (Llama's blocks with fused projections) and 1, 1.5, 2 (parallel blocks with biases everywhere)."""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.families.llama import NORMS, decoder, modules
from trainwright.models.families.mistral import uniform_windows
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _phi3(config: ConfigReader, name: str) -> ModelShape:
    return decoder(config, name, "phi3", windows=uniform_windows(config))


def _phi(config: ConfigReader, name: str) -> ModelShape:
    if config.flag("qk_layernorm", False):
        config.problem("qk_layernorm", "is true", "no published Phi model sets it; use the generic path: hidden=…")
    return decoder(
        config,
        name,
        "phi",
        biases=frozenset({"q", "k", "v", "o", "up", "down", "head"}),
        gated=False,
        norm="layer",
        norms_per_layer=1,
        parallel_block=True,
        activation=config.text("hidden_act", default="gelu_new"),
        dropout=config.number("resid_pdrop"),
    )


PHI3 = Family(
    "phi3",
    _phi3,
    modules(
        BlockNames(
            {
                "q+k+v": "self_attn.qkv_proj",
                "o": "self_attn.o_proj",
                "gate+up": "mlp.gate_up_proj",
                "down": "mlp.down_proj",
            },
            NORMS,
            fused={"self_attn.qkv_proj": "stacked", "mlp.gate_up_proj": "stacked"},
        )
    ),
)
PHI = Family(
    "phi",
    _phi,
    ModuleNames(
        embedding="model.embed_tokens",
        stacks=(
            Stack(
                "model.layers",
                BlockNames(
                    {
                        "q": "self_attn.q_proj",
                        "k": "self_attn.k_proj",
                        "v": "self_attn.v_proj",
                        "o": "self_attn.dense",
                        "up": "mlp.fc1",
                        "down": "mlp.fc2",
                    },
                    ("input_layernorm",),
                ),
            ),
        ),
        final_norms=("model.final_layernorm",),
        head="lm_head",
        shared=("model.rotary_emb",),
    ),
)
