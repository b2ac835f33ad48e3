"""Tiny models with their tokenizers: random weights, a second to make, no network."""

from __future__ import annotations

import os
from typing import Any

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "one",
    "two",
    "three",
    "red",
    "green",
    "blue",
    "dogs",
    "run",
    "yes",
    "no",
    "maybe",
    "is",
    "of",
    "to",
    "in",
    "it",
]


def tiny_tokenizer(**special: str) -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    tokens = [
        "<unk>",
        "<s>",
        "</s>",
        "<mask>",
        "\n",
        *[f" {w}" for w in WORDS],
        *WORDS,
        *"abcdefghijklmnopqrstuvwxyz .",
    ]
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\n| ?[a-z]+|."), "isolated")
    backend.decoder = tokenizers.decoders.Fuse()
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", **special}
    return PreTrainedTokenizerFast(tokenizer_object=backend, clean_up_tokenization_spaces=False, **names)


def tiny_llama(vocabulary: int, **changes: Any) -> Any:
    torch = pytest.importorskip("torch")
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None,
        tie_word_embeddings=False, initializer_range=0.2, **changes,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    return tiny_tokenizer()


@pytest.fixture(scope="session")
def language_model(tokenizer: Any) -> Any:
    from trainwright.evaluation.language_model import LanguageModel

    return LanguageModel(tiny_llama(len(tokenizer)), tokenizer)
