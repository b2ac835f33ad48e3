"""Stages one after the other compute what the whole model does, in every family that a pipeline may cut."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from models.architectures import CASES
from trainwright.data.batch import PADDING, Batch, positions
from trainwright.models.layout import Layout
from trainwright.models.registry import family
from trainwright.models.stages import IN_STAGES, balanced_stages
from trainwright.training import attention
from trainwright.training.batches import device_mover, padded
from trainwright.training.model import find_blocks
from trainwright.training.objective import Objective
from trainwright.training.parallel.pipeline import refusals, stage_seed
from trainwright.training.parallel.stage import Cutter, StageObjective, parts

ENCODERS = {"bert", "roberta", "xlm-roberta", "distilbert"}
CUT = [
    name
    for name, (model_type, _) in CASES.items()
    if family(model_type).name in IN_STAGES and model_type != "xlm-roberta"
]


def built(name: str, **changes: Any) -> nn.Module:
    """A tiny model in fp64 with the trainer's attention."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

    attention.register()
    model_type, fields = CASES[name]
    config = AutoConfig.for_model(model_type, **{**fields, "pad_token_id": 0, "initializer_range": 0.2, **changes})
    if model_type == "gemma2":
        config.attn_logit_softcapping = None  # no kernel computes it
    config.use_cache = False
    config._experts_implementation = "eager"  # torch's grouped product knows no fp64
    auto = AutoModelForMaskedLM if model_type in ENCODERS else AutoModelForCausalLM
    torch.manual_seed(4)
    model: nn.Module = auto.from_config(config, dtype=torch.float64, attn_implementation=attention.IMPLEMENTATION)
    return model.eval()


def batch(model: nn.Module) -> Any:
    """Two rows of packed documents of unequal length; some positions have targets."""
    draw = np.random.default_rng(6)
    documents = np.array([[0] * 5 + [1] * 8 + [PADDING] * 3, [0] * 16])
    ids = draw.integers(2, 100, documents.shape)
    labels = np.where((draw.random(ids.shape) < 0.6) & (documents != PADDING), draw.integers(2, 100, ids.shape), -100)
    made = Batch(ids, labels, positions(documents), documents, np.arange(2))
    return device_mover(torch.device("cpu"), model.config.model_type not in ENCODERS)(made)


def chained(model: nn.Module, names: Any, stages: tuple[int, ...], data: Any) -> tuple[Tensor, Tensor]:
    """The loss of all stages of one process."""
    cutter = Cutter(model, names)
    hidden = data.input_ids
    for part in parts(stages):
        blocks = list(cutter.blocks)[part.start : part.stop]
        hidden = StageObjective(part, cutter.stage(part, blocks), "sdpa", False)(hidden, data, 0.1)
    return hidden


@pytest.mark.parametrize("name", CUT)
def test_stages_compute_what_the_whole_model_does(name: str) -> None:
    whole = built(name)
    cut = copy.deepcopy(whole)
    names, layers = family(whole.config.model_type).modules, len(find_blocks(whole))
    data = batch(whole)
    loss, total = Objective(whole, "sdpa")(data, 0.1)
    loss.backward()
    staged, sum_of_stages = chained(cut, names, balanced_stages(layers, 3), data)
    staged.backward()
    assert torch.equal(sum_of_stages, total)
    wanted = {n: p.grad for n, p in whole.named_parameters() if p.grad is not None}
    got = {n: p.grad for n, p in cut.named_parameters() if p.grad is not None}
    assert set(got) == set(wanted)
    for parameter, gradient in wanted.items():
        torch.testing.assert_close(got[parameter], gradient, rtol=1e-12, atol=1e-14, msg=parameter)


@pytest.mark.parametrize("name", CUT)
def test_each_parameter_is_on_one_stage_but_a_tied_embedding_on_both_ends(name: str) -> None:
    whole = built(name)
    names, layers = family(whole.config.model_type).modules, len(find_blocks(whole))
    everything = dict(whole.named_parameters())
    seen: dict[str, list[int]] = {}
    for part in parts(balanced_stages(layers, 3)):
        model = copy.deepcopy(whole)
        tied = Cutter(model, names).is_tied
        kept = Cutter(model, names).keep([part])
        assert len(kept) == part.stop - part.start
        for parameter, value in model.named_parameters():
            assert torch.equal(value, everything[parameter])
            seen.setdefault(parameter, []).append(part.index)
    both = {f"{names.embedding}.weight"} if tied else set()
    assert {n for n, stages in seen.items() if len(stages) > 1} == both
    assert all(seen[n] == [0, 2] for n in both)
    assert set(seen) == set(everything)


def test_what_cannot_be_cut_is_refused_with_every_reason() -> None:
    layout = Layout(pp=2, schedule="interleaved", stages=(1, 1), micro_batches=3)
    problems = refusals(layout, "t5", 4, adapters=False)
    assert [what.split(" ")[0] for what, _ in problems] == ["pp=2:", "stages", "interleaved", "interleaved"]
    fsdp = Layout(pp=2, dp_shard=2, zero=3, schedule="zero_bubble", micro_batches=4, recompute="full")
    assert len(refusals(fsdp, "llama", 4, adapters=False)) == 2
    assert refusals(Layout(pp=2, micro_batches=1), "llama", 2, adapters=True) == []
    assert refusals(Layout(pp=2, stages=(0, 2)), "llama", 2, adapters=True)


def test_a_tied_matrix_that_only_the_head_has_a_name_for_is_refused() -> None:
    """Else each layout would save it under another name."""
    model = built("xlm-roberta")
    [(what, _)] = Cutter(model, family("xlm-roberta").modules).refusals()
    assert "after the head" in what
    assert Cutter(built("bert"), family("bert").modules).refusals() == []


def test_the_first_stage_draws_the_dropout_of_the_whole_model_and_no_other_stage_does() -> None:
    assert stage_seed(2**62 + 5, 0) == 2**62 + 5
    assert len({stage_seed(7, stage) for stage in range(100)}) == 100


def test_padding_adds_nothing_that_is_attended_to_or_counted() -> None:
    documents = np.array([[0, 0, 1]])
    small = Batch(np.array([[5, 6, 7]]), np.array([[6, -100, -100]]), positions(documents), documents, np.arange(1))
    grown = padded(small, 2, 5)
    assert grown.document_ids.tolist() == [[0, 0, 1, PADDING, PADDING], [PADDING] * 5]
    assert grown.valid_tokens == 1
    assert grown.input_ids[:1, :3].tolist() == small.input_ids.tolist()


def test_the_most_expensive_stage_costs_least() -> None:
    assert balanced_stages(10, 2, 0.0, 4.0) == (7, 3)
    assert balanced_stages(4, 4, 0.0, 100.0) == (1, 1, 1, 1)
    assert balanced_stages(8, 3, 1.0, 1.0) == (2, 4, 2)


def test_blocks_are_what_repeats_and_no_embedding_is_among_them() -> None:
    """BERT names its embeddings beside its layers as not to be split; their table is tied to the head."""
    from transformers import BertConfig, BertForMaskedLM

    sizes = {"vocab_size": 30, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8}
    model = BertForMaskedLM(BertConfig(num_hidden_layers=3, **sizes))
    assert [type(block).__name__ for block in find_blocks(model)] == ["BertLayer"] * 3
