"""FLOPs: the formulas of the papers as printed, brute force for windows, and what recomputation adds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.models import load
from trainwright.models.flops import attention_core, flops_per_token, mean_keys

#: Models of SC21 table 1 with vocabulary 51,200 and 2,048 tokens: name, batch, seconds derived from its TFLOP/s.
SEQUENCE, VOCAB = 2048, 51200


@pytest.mark.parametrize("name", ["megatron-1.7b", "megatron-18.4b", "megatron-145.6b", "megatron-1008b"])
def test_narayanan_2021_as_printed(name: str) -> None:
    """SC21, eq. 3, full recomputation, per token: 96·l·h²·(1 + s/6h + V/16lh)."""
    shape = load(name)
    h, layers = shape.hidden, shape.layers
    printed = 96 * layers * h**2 * (1 + SEQUENCE / (6 * h) + VOCAB / (16 * layers * h))
    assert flops_per_token(shape, SEQUENCE, "full", "full").hardware == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("name", ["megatron-22b", "megatron-529.6b", "megatron-1008b"])
def test_korthikanti_2022_as_printed(name: str) -> None:
    """Appendix A, per token: model 72·L·h²·(1 + s/6h + V/12hL); selective recomputation: s/3h instead of s/6h."""
    shape = load(name)
    h, layers = shape.hidden, shape.layers
    model = 72 * layers * h**2 * (1 + SEQUENCE / (6 * h) + VOCAB / (12 * h * layers))
    hardware = 72 * layers * h**2 * (1 + SEQUENCE / (6 * h) * 4 / 3 + VOCAB / (12 * h * layers))
    found = flops_per_token(shape, SEQUENCE, "full", "selective")
    assert found.model == pytest.approx(model, rel=1e-12)
    assert found.hardware == pytest.approx(hardware, rel=1e-12)


def test_palm_2022_as_printed() -> None:
    """Appendix B: 6N + 12·L·H·Q·T per token, N without embeddings; ours differs only by norms and biases in N."""
    shape = load("llama-2-7b")
    count = shape.parameters
    matrices = count.total - count.embedding - count.norms
    printed = 6 * matrices + 12 * shape.layers * shape.heads * shape.head_dim * 4096
    assert flops_per_token(shape, 4096, "full").model == printed


@given(st.integers(1, 60), st.integers(0, 70), st.booleans())
def test_mean_keys_agrees_with_counting(length: int, window: int, chunked: bool) -> None:
    reach = window or length

    def sees(query: int, key: int) -> bool:
        near = key // reach == query // reach if chunked else query - key < reach
        return key <= query and near

    pairs = sum(sees(query, key) for query in range(length) for key in range(length))
    assert mean_keys(length, window, causal=True, chunked=chunked) * length == pytest.approx(pairs)


@given(st.integers(1, 5000))
def test_causal_attention_is_about_half_of_full(length: int) -> None:
    shape = load("llama-3.1-8b")
    causal, full = (attention_core(shape, 0, length, convention) for convention in ("causal", "full"))
    assert causal == pytest.approx(full * (length + 1) / (2 * length))


def test_an_encoder_has_no_causal_half() -> None:
    shape = load("bert-base-uncased")
    assert attention_core(shape, 0, 512, "causal") == attention_core(shape, 0, 512, "full")


def test_cross_attention_is_counted_in_the_decoder_only() -> None:
    shape = load("t5-base")
    encoder, decoder = attention_core(shape, 0, 512, "full"), attention_core(shape, 12, 512, "full")
    assert decoder == 2 * encoder


@given(
    st.sampled_from(["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "t5-base"]), st.integers(1, 9000)
)
def test_more_recomputation_is_never_less_work(name: str, length: int) -> None:
    shape = load(name)
    none, selective, full = (flops_per_token(shape, length, recompute=kind) for kind in ("none", "selective", "full"))
    assert none.hardware == none.model == 3 * none.forward
    assert none.hardware < selective.hardware < full.hardware < 4 * none.forward
    assert none.model == selective.model == full.model


def test_a_mixture_costs_what_is_active() -> None:
    shape = load("mixtral-8x7b")
    tables = shape.parameters.embedding + shape.parameters.norms
    forward = flops_per_token(shape, 1).forward - sum(attention_core(shape, b, 1) for b in range(shape.blocks))
    assert forward == 2 * (shape.active_parameters - tables)
