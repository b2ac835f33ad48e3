"""Tensor and sequence parallelism compute what one process computes, whatever stands beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import CaseFailed, Pool
from trainwright.models.registry import family
from trainwright.models.tensor_parallel import CUT_BY_TENSOR

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

TP = {"tp": 2, "micro_batch_size": 1}
SP = {**TP, "sequence_parallel": True}
TWO = {
    "tied, five steps": Case(TP, samples=40),
    "untied": Case(TP, tied=False),
    "adapters, selective recomputation": Case(TP, lora=True, recompute="selective"),
    "positions split, five steps": Case(SP, samples=40),
    "positions split, untied, partial last step": Case({**SP, "micro_batch_size": 3}, samples=19, tied=False),
    "positions split, adapters, clipped": Case(SP, lora=True, clip=0.05),
    "positions split, full recomputation": Case(SP, recompute="full"),
}
FOUR = {
    "ddp": Case({**TP, "dp_replicate": 2}),
    "zero 3": Case({**TP, "dp_shard": 2}),
    "zero 3, positions split, untied, partial last step": Case(
        {**SP, "dp_shard": 2, "micro_batch_size": 3}, samples=19, tied=False
    ),
    "zero 3, positions split, adapters, clipped": Case({**SP, "dp_shard": 2}, lora=True, clip=0.05),
    "zero 1, positions split, full recomputation": Case({**SP, "dp_shard": 2, "zero": 1}, recompute="full"),
    "zero 2": Case({**TP, "dp_shard": 2, "zero": 2}),
    "pipeline": Case({**TP, "pp": 2}),
    "pipeline, positions split, adapters": Case({**SP, "pp": 2}, lora=True),
}
TIED = ("bert", "gemma", "gemma2", "gemma3_text", "gpt2", "opt", "roberta")
UNTIED = (
    "gpt_neox", "mistral", "mixtral", "olmo2", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3",
)  # fmt: skip
#: Their blocks flatten rows and positions into one dimension, which cannot be split by positions.
FLAT = {"opt"}
FAMILIES = sorted((*TIED, *UNTIED))


@pytest.mark.parametrize("name", TWO)
def test_two_tensor_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, TWO[name])


@pytest.mark.parametrize("name", FOUR)
def test_tensor_ranks_beside_others_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("lora", [False, True], ids=["full", "adapters"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_family_with_a_table_can_be_cut(two: Pool, kind: str, lora: bool) -> None:
    layout = TP if kind in FLAT else SP
    checks.same_steps(two, Case(layout, model=kind, tied=kind in TIED, lora=lora, layers=2, steps=1))


def test_fp32_stays_within_its_rounding(two: Pool) -> None:
    checks.same_steps(two, Case(SP, precision="fp32", lr=0.05, tied=False), limit=2e-5)


def test_what_cannot_be_cut_is_refused_with_the_legal_values(four: Pool) -> None:
    with pytest.raises(CaseFailed) as caught:
        four.run("parity.cases:steps", Case({"tp": 4}))
    assert "tp=4 does not divide num_attention_heads = 6" in str(caught.value)
    assert "tp=4 does not divide num_key_value_heads = 2" in str(caught.value)
    assert "tp: 1 or 2" in str(caught.value)


def test_blocks_that_flatten_positions_cannot_split_them(two: Pool) -> None:
    with pytest.raises(CaseFailed, match=r"AnswerNo: sequence_parallel: .* of model type opt .*"):
        two.run("parity.cases:steps", Case(SP, model="opt"))


def test_the_planner_offers_what_is_proved_here() -> None:
    assert {family(kind).name for kind in (*FAMILIES, "llama")} == CUT_BY_TENSOR


def test_latent_attention_is_refused(two: Pool) -> None:
    with pytest.raises(CaseFailed, match=r"AnswerNo: tp=2: .* no rule cuts .*latent attention"):
        two.run("parity.cases:steps", Case(TP, model="deepseek_v3"))


@pytest.mark.parametrize("fields", [{}, {"method": "lora"}], ids=["full", "adapters"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, fields: dict[str, object]
) -> None:
    layout = {"tp": 2, "sequence_parallel": True, "micro_batches": 2}
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, layout, **fields)
