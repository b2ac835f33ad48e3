"""Which edits a resumed run takes, and why not the others."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.runs.resume_rules import MAY_CHANGE, changes, refusals
from trainwright.spec.load import spec_from_values
from trainwright.spec.model import RunSpec

BASE: dict[str, Any] = {
    "name": "a",
    "model": "gpt2",
    "data": {"sources": ["/text"]},
    "duration": "10 steps",
    "global_batch_size": 8,
}


def spec(**values: Any) -> RunSpec:
    return spec_from_values({**BASE, **values})


@pytest.mark.parametrize(
    "edit",
    [
        {"duration": "20 steps"},
        {"logging_steps": 5},
        {"tracking": ["tensorboard"]},
        {"checkpoint": {"every": "5 steps", "keep": 9}},
        {"evaluate": {"every": "3 steps", "samples": ["x"]}},
        {"evaluate": {"every": "3 steps"}, "early_stopping": {"patience": 2}},
        {"target": {"name": "local", "overrides": {"grace_seconds": 9}}},
        {"parallelism": {"dp_shard": 2}, "micro_batch_size": 1, "compute": {"processes_per_node": 2}},
        {"recompute": "full"},
        {"retry": {"infrastructure": 9}},
        {"register": "my-model"},
        {"data": {"sources": ["/text"], "workers": 2}},
        {},
    ],
)
def test_what_keeps_the_losses_on_one_curve_is_let_pass(edit: dict[str, Any]) -> None:
    assert refusals(spec(), spec(**edit)) == []


@pytest.mark.parametrize(
    ("edit", "field", "why"),
    [
        ({"name": "b"}, "name", "folder"),
        ({"model": "gpt2-large"}, "model.path", "weights"),
        ({"method": "lora"}, "method", "weights"),
        ({"data": {"sources": ["/other"]}}, "data.sources", "samples"),
        ({"data": {"sources": ["/text"], "shuffle": False}}, "data.shuffle", "samples"),
        ({"sequence_length": 512}, "sequence_length", "samples"),
        ({"global_batch_size": 16}, "global_batch_size", "samples"),
        ({"seed": 1}, "seed", "samples"),
        ({"optimizer": {"lr": 1e-5}}, "optimizer.lr", "optimizer state"),
        ({"schedule": {"name": "linear"}}, "schedule.name", "one curve"),
        ({"clip": 0.5}, "clip", "one curve"),
        ({"precision": "bf16"}, "precision", "one curve"),
        ({"engine": "deepspeed"}, "engine", "format"),
        ({"storage": "/elsewhere"}, "storage", "checkpoints"),
        ({"train": {"script": "/a.py"}}, "train", "script"),
        ({"env": {"A": "b"}}, "env.A", "one curve"),
    ],
)
def test_what_is_another_run_is_refused_with_its_reason(edit: dict[str, Any], field: str, why: str) -> None:
    found = refusals(spec(), spec(**edit))
    assert [refusal.field for refusal in found] == [field]
    text = str(found[0].problem("spec.yaml"))
    assert why in text
    assert "start it as another run" in text


def test_all_refusals_are_told_at_once_and_no_others() -> None:
    found = refusals(spec(), spec(seed=1, clip=0.5, duration="20 steps"))
    assert [refusal.field for refusal in found] == ["clip", "seed"]


def test_every_field_that_may_change_exists() -> None:
    values = spec().to_dict()
    for dotted in MAY_CHANGE:
        place: Any = values
        for part in dotted.split("."):
            assert part in place, dotted
            place = place[part]


def test_a_prefix_of_a_name_frees_nothing_else() -> None:
    assert [field for field, _, _ in changes({"a": {"b": 1, "c": [1]}}, {"a": {"b": 1, "c": [2]}, "d": 3})] == [
        "a.c",
        "d",
    ]
