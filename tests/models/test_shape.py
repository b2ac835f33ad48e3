"""ModelShape: published formulas, invariances between families of shapes, and its own sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.models import load
from trainwright.models.shape import KINDS, LatentAttention, MixtureOfExperts, ModelShape, ParameterCount

GPT_BIASES = frozenset({"q", "k", "v", "o", "up", "down"})


def gpt(
    hidden: int = 768, layers: int = 12, heads: int = 12, vocab: int = 51200, positions: int = 1024
) -> ModelShape:
    return ModelShape(
        name="gpt",
        family="gpt2",
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        intermediate=4 * hidden,
        vocab=vocab,
        tied=True,
        gated=False,
        norm="layer",
        biases=GPT_BIASES,
        positions="learned",
        max_positions=positions,
        position_rows=positions,
    )


shapes = st.builds(
    lambda heads, group, head_dim, layers, width, vocab, gated, tied: ModelShape(
        name="any",
        family="llama",
        hidden=heads * group * head_dim,
        layers=layers,
        heads=heads * group,
        kv_heads=heads,
        head_dim=head_dim,
        intermediate=width,
        vocab=vocab,
        gated=gated,
        tied=tied,
    ),
    st.integers(1, 8),
    st.integers(1, 4),
    st.integers(1, 32),
    st.integers(1, 6),
    st.integers(1, 300),
    st.integers(1, 500),
    st.booleans(),
    st.booleans(),
)


@given(st.integers(1, 40), st.integers(1, 12), st.integers(100, 60000))
def test_gpt_has_the_parameters_of_narayanan_2021(heads: int, layers: int, vocab: int) -> None:
    """SC21, eq. 2: P = 12·l·h²·(1 + 13/(12h) + (V + s)/(12·l·h)); it leaves out the final norm's 2h."""
    shape = gpt(hidden=64 * heads, layers=layers, heads=heads, vocab=vocab)
    h = shape.hidden
    formula = 12 * layers * h**2 + 13 * layers * h + (vocab + shape.position_rows) * h
    assert shape.parameters.total == formula + 2 * h


@given(shapes)
def test_the_whole_is_the_sum_of_its_parts(shape: ModelShape) -> None:
    parts = shape.embedding_parameters + shape.head_parameters
    for block in range(shape.blocks):
        parts = parts + shape.block_parameters(block)
    assert parts == shape.parameters
    assert sum(getattr(shape.parameters, kind) for kind in KINDS) == shape.parameters.total
    assert shape.active_parameters == shape.parameters.total


@given(shapes)
def test_tying_saves_exactly_one_table(shape: ModelShape) -> None:
    tied, untied = shape.with_(tied=True), shape.with_(tied=False)
    assert untied.parameters.total - tied.parameters.total == shape.vocab * shape.hidden
    assert tied.head_linears == untied.head_linears


@given(shapes, st.integers(2, 9), st.data())
def test_experts_add_copies_that_a_token_does_not_use(shape: ModelShape, experts: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, experts))
    layers = tuple(range(0, shape.layers, 2))
    sparse = shape.with_(
        moe=MixtureOfExperts(experts=experts, top_k=top_k, intermediate=shape.intermediate, layers=layers)
    )
    routers = len(layers) * shape.hidden * experts
    dense_mlp = shape.block_parameters(0).mlp
    assert sparse.expert_parameters == dense_mlp
    assert sparse.parameters.experts == len(layers) * experts * dense_mlp
    assert sparse.parameters.router == routers
    grown = sparse.parameters.total - shape.parameters.total
    assert grown == len(layers) * (experts - 1) * dense_mlp + routers
    idle = len(layers) * (experts - top_k) * dense_mlp
    assert sparse.active_parameters == sparse.parameters.total - idle


def test_latent_attention_counts_its_ranks() -> None:
    """DeepSeek-V2 (2405.04434), section 2.1: down to the ranks, up to the heads, one shared rotary key."""
    latent = LatentAttention(q_rank=0, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128)
    shape = load("deepseek-v2-lite")
    assert shape.latent == latent
    h, heads = shape.hidden, shape.heads
    assert shape.block_parameters(5).attention == (
        h * heads * 192 + h * (512 + 64) + 512 * heads * 256 + heads * 128 * h
    )
    assert {linear.name for linear in shape.block_linears(5) if linear.split == "replicated"} == {"kv_down", "router"}


def test_encoder_decoder_blocks_are_numbered_encoder_first() -> None:
    shape = load("t5-base")
    names = [{linear.name for linear in shape.block_linears(block)} for block in (0, 12)]
    assert shape.blocks == 24
    assert "cross_q" not in names[0]
    assert "cross_q" in names[1]
    heads_of_bias = shape.relative_buckets * shape.heads
    assert shape.block_parameters(0).attention - shape.block_parameters(1).attention == heads_of_bias
    assert shape.block_parameters(12).attention - shape.block_parameters(13).attention == heads_of_bias


def test_sparse_layers_and_windows_are_per_layer() -> None:
    maverick, gemma = load("llama-4-maverick"), load("gemma-3-27b")
    assert [maverick.is_sparse(block) for block in range(4)] == [False, True, False, True]
    assert [maverick.window(block) for block in range(4)] == [8192, 8192, 8192, 0]
    assert [gemma.window(block) for block in range(6)] == [1024] * 5 + [0]
    assert not load("llama-3.1-8b").is_sparse(3)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        ModelShape.from_dict({**gpt().to_dict(), "colour": "red"})


def test_counts_add_by_kind() -> None:
    assert (ParameterCount(mlp=2) + ParameterCount(mlp=3, head=1)).to_dict()["total"] == 6
