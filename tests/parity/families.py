"""Tiny models of the families beside Llama, and what one process computes with them by transformers' own code."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trainwright.data.batch import Batch, collate, pad
from trainwright.data.sequences import Sequence

if TYPE_CHECKING:
    from parity.cases import Case

_SIZES = {
    "vocab_size": 121, "hidden_size": 24, "intermediate_size": 40, "num_attention_heads": 6,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2, "pad_token_id": 0,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
_ENCODER = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_key_value_heads": None}
#: What each model of ``Case.model`` is made of besides ``_SIZES``. None takes a size out.
KINDS: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": 5},
    "qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
    "qwen3": {"head_dim": 8},
    "gemma": {"head_dim": 8},
    "gemma2": {"head_dim": 8, "sliding_window": 6, "query_pre_attn_scalar": 8},
    "gemma3_text": {"head_dim": 8, "sliding_window": 6, "query_pre_attn_scalar": 8},
    "olmo2": {},
    "smollm3": {"no_rope_layer_interval": 2},
    "phi": {"num_key_value_heads": 6, "partial_rotary_factor": 0.5, "resid_pdrop": 0.0},
    "phi3": {"resid_pdrop": 0.0},
    "opt": {
        "ffn_dim": 40, "dropout": 0.0, "word_embed_proj_dim": 24, "num_key_value_heads": None,
        "intermediate_size": None,
    },
    "gpt_neox": {"hidden_act": "gelu", "num_key_value_heads": None, "use_parallel_residual": True},
    "gpt2": {"n_inner": 40, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "num_key_value_heads": None},
    "bert": {**_ENCODER},
    "roberta": {**_ENCODER},
}  # fmt: skip
ENCODERS = frozenset({"bert", "roberta"})


def config(case: Case) -> Any:
    """The case's config."""
    from transformers import AutoConfig

    values = {**_SIZES, "num_hidden_layers": case.layers, "tie_word_embeddings": case.tied, **KINDS[case.model]}
    values |= case.fields
    made = AutoConfig.for_model(case.model, **{name: value for name, value in values.items() if value is not None})
    if case.model == "gemma2":
        made.attn_logit_softcapping = None  # no kernel of the trainer caps scores
    return made


def build(case: Case, implementation: str) -> nn.Module:
    """The model in fp64; the same weights everywhere. Biases too are random, so that each counts."""
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    kind = AutoModelForMaskedLM if case.model in ENCODERS else AutoModelForCausalLM
    # transformers keeps Gemma 2 from SDPA for the cap that is switched off here.
    asked = "eager" if case.model == "gemma2" and implementation == "sdpa" else implementation
    model: nn.Module = kind.from_config(config(case), dtype=torch.float64, attn_implementation=asked)
    model.config._attn_implementation = implementation
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.normal_(parameter, std=0.2)
    for module in model.modules():
        if type(module).__name__.startswith("Gemma") and type(module).__name__.endswith("RMSNorm"):
            type(module).forward = _gemma_norm
    return model


def _gemma_norm(self: Any, hidden: Tensor) -> Tensor:
    normed = hidden * torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.eps)
    return normed * (1.0 + self.weight)


@dataclass(frozen=True)
class Hidden:
    """An encoder's objective without chance: tokens that count are hidden, and predicted."""

    def __call__(self, sequences: SequenceOf[Sequence], samples: Any = None) -> Batch:
        """The batch."""
        batch = pad(sequences)
        for row, sequence in enumerate(sequences):
            where = np.flatnonzero(sequence.loss_mask)
            batch.labels[row, where] = batch.input_ids[row, where]
            batch.input_ids[row, where] = 1
        return batch


@dataclass(frozen=True)
class Next:
    """The next token, and any for the last position: as many targets as positions."""

    def __call__(self, sequences: SequenceOf[Sequence], samples: Any = None) -> Batch:
        """The batch."""
        batch = collate(sequences)
        batch.labels[:, -1] = 1
        return batch


def losses(model: nn.Module, case: Case, row: Sequence) -> tuple[Tensor, int]:
    """(sum, targets) of one row, each document by itself."""
    total, count = torch.zeros((), dtype=torch.float64), 0
    for document in np.unique(row.document_ids):
        where = row.document_ids == document
        ids = torch.tensor(row.input_ids[where].astype(np.int64))[None]
        counts = torch.tensor(row.loss_mask[where])
        place = torch.arange(ids.shape[1])[None]
        if case.model in ENCODERS:
            logits = model(input_ids=torch.where(counts, 1, ids), position_ids=place).logits[0]
            total = total + F.cross_entropy(logits[counts], ids[0][counts], reduction="sum")
            count += int(counts.sum())
        elif ids.shape[1] > 1:
            logits = model(input_ids=ids, position_ids=place, use_cache=False).logits[0, :-1]
            total = total + F.cross_entropy(logits[counts[1:]], ids[0, 1:][counts[1:]], reduction="sum")
            count += int(counts[1:].sum())
    return total, count
