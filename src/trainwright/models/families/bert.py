"""BERT, RoBERTa, XLM-RoBERTa and DistilBERT as masked language models: encoders with a transform before a tied head.

The pooler of the bare encoder is not trained by this objective and is not part of the shape.
"""

from __future__ import annotations

from trainwright.models.config import ConfigReader
from trainwright.models.family import BlockNames, Family, ModuleNames, Stack
from trainwright.models.shape import ModelShape

BIASES = frozenset({"q", "k", "v", "o", "up", "down", "head"})
#: RoBERTa numbers positions from padding_idx + 1 = 2 on, so that many rows of its table are never used.
ROBERTA_UNUSED_ROWS = 2


def _read(config: ConfigReader, name: str, family: str, unused_rows: int = 0) -> ModelShape:
    hidden, heads = config.size("hidden_size", "dim"), config.size("num_attention_heads", "n_heads")
    rows = config.size("max_position_embeddings", default=512)
    return ModelShape(
        name=name,
        family=family,
        hidden=hidden,
        layers=config.size("num_hidden_layers", "n_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads or 1,
        intermediate=config.size("intermediate_size", "hidden_dim"),
        vocab=config.size("vocab_size"),
        tied=config.flag("tie_word_embeddings", True),
        gated=False,
        activation=config.text("hidden_act", "activation", default="gelu"),
        norm="layer",
        final_norm=False,
        embedding_norm=True,
        biases=BIASES,
        positions="learned",
        max_positions=max(1, rows - unused_rows),
        position_rows=rows,
        token_types=0 if family == "distilbert" else config.count("type_vocab_size", default=2),
        causal=config.flag("is_decoder", False),
        dropout=config.number("hidden_dropout_prob", "dropout", default=0.1),
        head_transform=True,
    )


def _bert(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "bert")


def _roberta(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "roberta", ROBERTA_UNUSED_ROWS)


def _distilbert(config: ConfigReader, name: str) -> ModelShape:
    return _read(config, name, "distilbert")


_BLOCK = BlockNames(
    {
        "q": "attention.self.query",
        "k": "attention.self.key",
        "v": "attention.self.value",
        "o": "attention.output.dense",
        "up": "intermediate.dense",
        "down": "output.dense",
    },
    ("attention.output.LayerNorm", "output.LayerNorm"),
)


def _encoder(prefix: str, head: str, transform: tuple[str, ...]) -> ModuleNames:
    return ModuleNames(
        embedding=f"{prefix}.embeddings.word_embeddings",
        positions=(f"{prefix}.embeddings.position_embeddings", f"{prefix}.embeddings.token_type_embeddings"),
        embedding_norms=(f"{prefix}.embeddings.LayerNorm",),
        stacks=(Stack(f"{prefix}.encoder.layer", _BLOCK),),
        final_norms=(),
        head=head,
        head_transform=transform,
    )


BERT = Family(
    "bert",
    _bert,
    _encoder(
        "bert",
        "cls.predictions.decoder",
        ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    ),
    objective="masked",
)
ROBERTA = Family(
    "roberta",
    _roberta,
    _encoder("roberta", "lm_head.decoder", ("lm_head.dense", "lm_head.layer_norm")),
    objective="masked",
)
DISTILBERT = Family(
    "distilbert",
    _distilbert,
    ModuleNames(
        embedding="distilbert.embeddings.word_embeddings",
        positions=("distilbert.embeddings.position_embeddings",),
        embedding_norms=("distilbert.embeddings.LayerNorm",),
        stacks=(
            Stack(
                "distilbert.transformer.layer",
                BlockNames(
                    {
                        "q": "attention.q_lin",
                        "k": "attention.k_lin",
                        "v": "attention.v_lin",
                        "o": "attention.out_lin",
                        "up": "ffn.lin1",
                        "down": "ffn.lin2",
                    },
                    ("sa_layer_norm", "output_layer_norm"),
                ),
            ),
        ),
        final_norms=(),
        head="vocab_projector",
        head_transform=("vocab_transform", "vocab_layer_norm"),
    ),
    objective="masked",
)
