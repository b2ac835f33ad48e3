"""A model described by text: what is filled in, what is refused, and how."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright.errors import InputError
from trainwright.models import load
from trainwright.models.generic import KEYS
from trainwright.models.shape import ModelShape

parse = ModelShape.from_text


def test_a_gpt_is_the_default() -> None:
    shape = parse("hidden=6144,layers=40,heads=48,vocab=51200,tied=true")
    assert shape.parameters.total == load("megatron-18.4b").parameters.total


def test_gated_makes_a_llama() -> None:
    shape = parse("hidden=4096, layers=32, heads=32, kv_heads=8, intermediate=14336, vocab=128256, gated=yes")
    assert shape.parameters.total == load("llama-3.1-8b").parameters.total
    assert parse("hidden=4096,layers=32,heads=32,gated=1").intermediate == 11008


def test_config_names_are_understood() -> None:
    text = "hidden_size=4096,num_hidden_layers=32,num_attention_heads=32,num_key_value_heads=8,vocab_size=32000"
    assert parse(text) == parse("hidden=4096,layers=32,heads=32,kv_heads=8,vocab=32000")


def test_experts_make_every_layer_sparse() -> None:
    shape = parse("hidden=4096,layers=32,heads=32,kv_heads=8,intermediate=14336,experts=8,top_k=2,gated=true")
    assert shape.parameters.total == load("mixtral-8x7b").parameters.total


@given(st.floats(6, 12.5))
def test_parameters_alone_are_met_exactly_and_said_to_be_rough(exponent: float) -> None:
    target = int(10**exponent)
    shape = parse(f"params={target}")
    assert shape.parameters.total == target
    assert "assumed" in shape.notes[0]
    assert shape.hidden % shape.heads == 0


def test_parameters_are_written_as_people_write_them() -> None:
    assert parse("params=7B").parameters.total == 7_000_000_000
    assert parse("params=1.5e9").parameters.total == 1_500_000_000
    assert parse("params=350m").name == "0.35B"


def test_parameters_beyond_the_shape_are_other() -> None:
    plain = parse("hidden=1024,layers=4,heads=16")
    whole = parse("hidden=1024,layers=4,heads=16,params=200M")
    assert whole.parameters.total == 200_000_000
    assert whole.parameters.other == 200_000_000 - plain.parameters.total


def test_a_rounded_total_changes_nothing() -> None:
    assert parse("hidden=6144,layers=40,heads=48,vocab=51200,tied=true,params=18.4B").other == 0


def test_a_total_below_the_shape_is_refused() -> None:
    with pytest.raises(InputError, match="params"):
        parse("hidden=6144,layers=40,heads=48,params=7B")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ["hidden, layers, heads are missing"]),
        ("hidden=4096,layers=32", ["heads is missing"]),
        ("hiden=4096,layers=32,heads=32", ["did you mean hidden"]),
        ("params=7", ["params: is 7", "for billions write 7B"]),
        ("hidden=4096,layers=0,heads=-3", ["layers", "heads"]),
        ("hidden=4096,layers=32,heads=30", ["does not divide hidden"]),
        ("hidden=4096,layers=32,heads=32,kv_heads=5", ["does not divide heads"]),
        ("hidden=4096,layers=32,heads=32,gated=maybe", ["true or false"]),
        ("hidden=4096,layers=32,heads=32,norm=rmss", ["did you mean rms"]),
        ("hidden=4096,layers=32,heads=32,top_k=2", ["needs experts"]),
        ("hidden=4096,layers=32,heads=32,experts=2,top_k=3", ["more than experts"]),
        ("hidden=4096,hidden=4096,layers=1,heads=1", ["given twice"]),
        ("hidden", ["not name=value"]),
        ("hidden=4096.5,layers=1e99,heads=32", ["hidden", "layers"]),
        ("hidden=nan,layers=inf,heads=1", ["hidden", "layers"]),
    ],
)
def test_everything_wrong_is_told_at_once(text: str, told: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    for part in told:
        assert part in str(caught.value)


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), st.text(alphabet="0123456789.eMB-xtruefals", max_size=6)))
def test_no_text_ends_in_a_traceback(values: dict[str, str]) -> None:
    text = ",".join(f"{key}={value}" for key, value in values.items())
    try:
        assert parse(text).parameters.total > 0
    except InputError as error:
        assert error.problems  # noqa: PT017 - either outcome is legal


@pytest.mark.parametrize("text", ["params=1e999", "hidden=64,layers=1e15,heads=1"])
def test_absurd_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)
