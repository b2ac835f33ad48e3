"""Stages on several ranks compute what one process computes, under every schedule."""

from __future__ import annotations

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import CaseFailed, Pool

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

PP = {"pp": 2, "micro_batch_size": 1}
INTERLEAVED = {**PP, "schedule": "interleaved"}
TWO = {
    "1f1b, tied, uneven stages, five steps": Case(PP, samples=40),
    "1f1b, untied, stages as asked": Case({**PP, "stages": [1, 2]}, tied=False),
    "gpipe": Case({**PP, "schedule": "gpipe"}),
    "fewer micro-batches than stages": Case({**PP, "micro_batch_size": 8}),
    "partial last step": Case({**PP, "micro_batch_size": 2}, samples=19),
    "clipped": Case(PP, clip=0.05),
    "adapters": Case(PP, lora=True),
    "full recomputation": Case(PP, recompute="full"),
    "selective recomputation, adapters": Case(PP, recompute="selective", lora=True),
    "a first stage without blocks": Case({**PP, "stages": [0, 3]}),
    "interleaved, tied": Case(INTERLEAVED, layers=5),
    "interleaved, three stages a rank, untied": Case({**INTERLEAVED, "stages": [1] * 6}, layers=6, tied=False),
    "zero bubble, tied": Case({**PP, "schedule": "zero_bubble"}),
    "zero bubble, untied, adapters": Case({**PP, "schedule": "zero_bubble"}, tied=False, lora=True),
}
FOUR = {
    "four stages": Case({**PP, "pp": 4}, layers=5),
    "four stages, zero bubble, clipped": Case({**PP, "pp": 4, "schedule": "zero_bubble"}, layers=5, clip=0.05),
    "with ddp, partial last step": Case({**PP, "dp_replicate": 2}, samples=21),
    "with ddp, zero bubble": Case({**PP, "dp_replicate": 2, "schedule": "zero_bubble"}),
    "with zero 1, gpipe": Case({**PP, "dp_shard": 2, "zero": 1, "schedule": "gpipe"}),
    "with zero 2, untied": Case({**PP, "dp_shard": 2, "zero": 2}, tied=False),
    "with zero 3, tied": Case({**PP, "dp_shard": 2}),
    "with zero 3, interleaved, adapters": Case({**INTERLEAVED, "dp_shard": 2}, layers=4, lora=True),
    "with tp, positions split, tied, interleaved": Case(
        {**INTERLEAVED, "tp": 2, "sequence_parallel": True}, layers=4
    ),
    "with zero 3, recomputation, clipped": Case({**PP, "dp_shard": 2}, recompute="full", clip=0.05),
}
#: Every family whose stages are not shown equal elsewhere by what is odd about it: how embeddings come in, what the
#: blocks get beside hidden states, what stands between the last block and the loss.
OTHERS = (
    "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "olmo2", "smollm3", "phi", "phi3", "opt",
    "gpt_neox", "gpt2", "bert", "roberta", "mixtral", "qwen3_moe", "qwen2_moe", "deepseek_v3",
)  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_two_stages_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, TWO[name])


@pytest.mark.parametrize("name", FOUR)
def test_stages_on_four_ranks_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("model", OTHERS)
def test_stages_of_other_families_compute_what_one_process_does(two: Pool, model: str) -> None:
    checks.same_steps(two, Case(PP, model=model))


EIGHT = {
    "tp, positions split, with zero 3 and stages": Case(
        {**PP, "tp": 2, "dp_shard": 2, "sequence_parallel": True}, clip=0.05
    ),
    "tp with hsdp": Case({"tp": 2, "dp_replicate": 2, "dp_shard": 2, "micro_batch_size": 1}, tied=False),
    "experts, in stages, replicas of shards": Case(
        {**PP, "dp_replicate": 2, "dp_shard": 2, "ep": 2}, model="mixtral", layers=2
    ),
    "cp with zero 3 and tp": Case({"cp": 2, "tp": 2, "dp_shard": 2, "micro_batch_size": 1}, lora=True),
}


@pytest.mark.parametrize("name", EIGHT)
def test_three_dimensions_on_eight_ranks_compute_what_one_process_does(eight: Pool, name: str) -> None:
    checks.same_steps(eight, EIGHT[name])


def test_fp32_stays_within_its_rounding(two: Pool) -> None:
    checks.same_steps(two, Case(PP, precision="fp32", lr=0.05), limit=2e-5)


def test_what_cannot_be_cut_is_refused_on_every_rank(two: Pool) -> None:
    with pytest.raises(CaseFailed, match="AnswerNo: 8 stages are more than the 3 blocks"):
        two.run("parity.cases:steps", Case({**PP, "schedule": "interleaved", "stages": [1] * 8}))
