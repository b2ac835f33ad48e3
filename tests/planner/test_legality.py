"""Bad input: every problem at once, each with the nearest legal values."""

from __future__ import annotations

import pytest

from trainwright.errors import InputError
from trainwright.facts import instances
from trainwright.models.layout import Layout
from trainwright.planner.answer import Question, answer_layout
from trainwright.planner.asked import Asked, parse_layout, question_of
from trainwright.planner.inputs import machine_of
from trainwright.planner.legality import layout_troubles, nearest, workload_troubles
from trainwright.planner.workload import Workload, gpt

LLAMA = gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, max_positions=8192)
DGX = machine_of(instances.get("dgx-h100"), 2)


def _fields(layout: Layout, batch: int = 64, sequence: int = 4096) -> dict[str, tuple[str, str]]:
    workload = Workload(LLAMA, sequence, batch)
    return {field: (what, instead) for field, what, instead in layout_troubles(workload, DGX, layout)}


def test_all_problems_of_a_layout_are_told_at_once() -> None:
    layout = Layout(tp=3, pp=64, ep=2, cp=2, dp_shard=2, stages=())
    found = _fields(layout, batch=7, sequence=4098)
    assert {"layout", "tp", "pp", "cp", "ep", "global_batch_size"} <= found.keys()


@pytest.mark.parametrize(
    ("layout", "field", "instead"),
    [
        (Layout(tp=16), "tp", "nearest legal: 8"),
        (Layout(tp=8, pp=2, stages=(16, 15)), "stages", "such as 16,16"),
        (Layout(dp_shard=16, zero=3), "global_batch_size", "with this layout 48 or 64 would be legal"),
        (Layout(dp_replicate=16, zero=1), "zero", "zero=0"),
        (Layout(dp_shard=4), "layout", "dp_shard=16 would use all of them"),
    ],
)
def test_the_nearest_legal_value_is_named(layout: Layout, field: str, instead: str) -> None:
    assert instead in _fields(layout, batch=63)[field][1]


def test_interleaving_needs_whole_rounds_of_micro_batches() -> None:
    layout = Layout(pp=2, tp=8, schedule="interleaved", micro_batches=3, micro_batch_size=1)
    assert "schedule" in _fields(layout, batch=3)


def test_sequences_longer_than_the_positions_and_absurd_sizes_are_refused() -> None:
    fields = {f: what for f, what, _ in workload_troubles(Workload(LLAMA, 9000, 0))}
    assert "longer than the model's 8192 positions" in fields["sequence_length"]
    assert "global_batch_size" in fields
    assert {f for f, *_ in workload_troubles(Workload(LLAMA, 1 << 40, -3))} == {
        "sequence_length",
        "global_batch_size",
    }


def test_nearest_names_one_value_on_each_side() -> None:
    assert nearest(6, [1, 2, 4, 8]) == "nearest legal: 4 or 8"
    assert nearest(1, [1]) == "no other value is legal here"


def test_a_forced_layout_that_cannot_be_is_refused_with_every_reason() -> None:
    question = Question(Workload(LLAMA, 4096, 64), DGX)
    with pytest.raises(InputError) as raised:
        answer_layout(question, Layout(tp=5, dp_shard=2))
    assert {p.field for p in raised.value.problems} >= {"layout", "tp", "global_batch_size"}


def test_layout_text_is_read_with_the_names_of_layout() -> None:
    assert parse_layout("dp_shard=8,tp=2,sequence_parallel=true") == Layout(
        dp_shard=8, tp=2, zero=3, sequence_parallel=True
    )
    assert parse_layout("pp=2,stages=3+5").stages == (3, 5)


@pytest.mark.parametrize("text", ["tp=two", "tpp=2", "tp", "dp_shard=-1", "zero=7"])
def test_unreadable_layouts_are_bad_input(text: str) -> None:
    with pytest.raises(InputError):
        parse_layout(text)


def test_every_wrong_option_is_told_at_once() -> None:
    asked = Asked(
        model="llama-3.1-8bb", machine="p9.48xlarge", layout="tpp=2", precision="bf15", optimizer="adamv", nodes=-1
    )
    with pytest.raises(InputError) as raised:
        question_of(asked)
    text = str(raised.value)
    assert "did you mean llama-3.1-8b?" in text
    assert "did you mean bf16?" in text
    assert "did you mean adamw?" in text
    assert "p9.48xlarge" in text
    assert "tpp" in text
    assert "--nodes" in text


def test_nothing_asked_is_told_what_is_missing() -> None:
    with pytest.raises(InputError) as raised:
        question_of(Asked())
    assert {p.field for p in raised.value.problems} == {"model", "machine"}


def test_a_precision_that_the_accelerator_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="a100-40gb does not compute"):
        question_of(Asked(model="llama-3.1-8b", machine="p4d.24xlarge", precision="fp8"))
