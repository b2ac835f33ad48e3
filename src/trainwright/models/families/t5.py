"""T5 1.0, 1.1, FLAN-T5 and mT5: encoder and decoder, relative positions held by the first block of each stack.

T5 1.1 and FLAN-T5 checkpoints have a head of their own and the shape counts it. transformers 5 keeps it when it
loads one, but ties it to the embedding in a model built from scratch, whatever ``tie_word_embeddings`` says.
"""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape


def _read(config: ConfigReader, name: str, family: str, gated: bool, tied: bool) -> ModelShape:
    heads = config.size("num_heads")
    encoder = config.size("num_layers")
    projection = config.text("feed_forward_proj", default="gated-gelu" if gated else "relu")
    return ModelShape(
        name=name,
        family=family,
        hidden=config.size("d_model"),
        layers=config.size("num_decoder_layers", default=encoder),
        heads=heads,
        kv_heads=heads,
        head_dim=config.size("d_kv"),
        intermediate=config.size("d_ff"),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", tied),
        gated=projection.startswith("gated"),
        activation=projection.removeprefix("gated-"),
        positions="relative",
        dropout=config.number("dropout_rate", default=0.1),
        encoder_layers=encoder,
        relative_buckets=config.size("relative_attention_num_buckets", default=32),
    )


def _t5(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "t5", gated=False, tied=True)


def _mt5(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "mt5", gated=True, tied=True)


def _attention(prefix: str, layer: int, name: str) -> dict[str, str]:
    return {f"{prefix}{part}": f"layer.{layer}.{name}.{part}" for part in "qkvo"}


def _mlp(layer: int) -> dict[str, str]:
    """``wi`` in T5 1.0 (ungated); ``wi_0`` (gate) and ``wi_1`` (up) in the gated form."""
    path = f"layer.{layer}.DenseReluDense"
    return {"gate": f"{path}.wi_0", "up": f"{path}.wi_1", "up@ungated": f"{path}.wi", "down": f"{path}.wo"}


_BIAS = ("layer.0.SelfAttention.relative_attention_bias",)
_NAMES = ModuleNames(
    embedding="shared",
    stacks=(
        Stack(
            "encoder.block",
            BlockNames(
                {**_attention("", 0, "SelfAttention"), **_mlp(1)},
                ("layer.0.layer_norm", "layer.1.layer_norm"),
                other=_BIAS,
            ),
        ),
        Stack(
            "decoder.block",
            BlockNames(
                {
                    **_attention("", 0, "SelfAttention"),
                    **_attention("cross_", 1, "EncDecAttention"),
                    **_mlp(2),
                },
                ("layer.0.layer_norm", "layer.1.layer_norm", "layer.2.layer_norm"),
                other=_BIAS,
            ),
        ),
    ),
    final_norms=("encoder.final_layer_norm", "decoder.final_layer_norm"),
    head="lm_head",
)
T5 = Family("t5", _t5, _NAMES, objective="sequence_to_sequence")
MT5 = Family("mt5", _mt5, _NAMES, objective="sequence_to_sequence")
