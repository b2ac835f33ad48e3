"""The built-in table: parameters are the published ones, names are found however people write them."""

from __future__ import annotations

import pytest

from trainwright.facts import models as table
from trainwright.models import load
from trainwright.models.shape import ModelShape

ROWS = {name: row for name in table.names() if (row := table.find(name)) is not None}
EXACT = [name for name, row in ROWS.items() if "parameters" in row]
ROUNDED = [name for name, row in ROWS.items() if "published" in row]
#: What the makers call a model is rounded, and sometimes leaves the embeddings out or counts a vision tower in.
ROUNDING = 0.03


@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert load(name).parameters.total == ROWS[name]["parameters"]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_near_the_name(name: str) -> None:
    text = ROWS[name]["published"]
    published = float(text[:-1]) * {"M": 1e6, "B": 1e9}[text[-1]]
    assert load(name).parameters.total == pytest.approx(published, rel=ROUNDING)


def test_every_row_can_be_checked() -> None:
    unchecked = set(ROWS) - set(EXACT) - set(ROUNDED)
    assert unchecked == {name for name in ROWS if name.startswith("llm-foundry-")} - {"llm-foundry-70b"}


@pytest.mark.parametrize(
    ("model", "positions", "parameters"),
    [
        ("125m", 2048, 125311488),
        ("7b", 2048, 6658859008),
        ("30b", 8192, 30019254272),
        ("30b", 4096, 29989894144),
        ("70b", 2048, 64862437376),
    ],
)
def test_llm_foundry_models_have_the_parameters_of_its_benchmarks(
    model: str, positions: int, parameters: int
) -> None:
    shape = load(f"llm-foundry-{model}").with_(position_rows=positions)
    assert shape.parameters.total == parameters


@pytest.mark.parametrize(
    ("model", "active"),
    [
        ("mixtral-8x7b", 12.9e9),
        ("mixtral-8x22b", 39e9),
        ("qwen3-30b-a3b", 3.3e9),
        ("qwen3-235b-a22b", 22e9),
        ("deepseek-v3", 37e9),
        ("deepseek-v2-lite", 2.66e9),
        ("llama-4-maverick", 17e9),
    ],
)
def test_active_parameters_are_the_published_ones(model: str, active: float) -> None:
    assert load(model).active_parameters == pytest.approx(active, rel=0.025)


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("HuggingFaceTB/SmolLM2-135M", "smollm2-135m"),
        ("gpt2", "gpt2"),
        ("openai-community/gpt2", "gpt2"),
        ("google-bert/bert-base-uncased", "bert-base-uncased"),
        ("roberta-base", "roberta-base"),
        ("google/flan-t5-xl", "flan-t5-xl"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
    ],
)
def test_names_are_found_as_people_write_them(written: str, name: str) -> None:
    row = table.find(written)
    assert row is not None
    assert row["name"] == name


def test_no_two_models_share_a_hub_id() -> None:
    hubs = [row["hub"].lower() for row in ROWS.values() if "hub" in row]
    assert len(hubs) == len(set(hubs))


def test_shapes_survive_a_round_trip_through_json() -> None:
    for name in ("llama-3.1-8b", "deepseek-v3", "gemma-3-27b", "t5-3b", "bert-base-uncased"):
        shape = load(name)
        assert ModelShape.from_dict(shape.to_dict()) == shape
