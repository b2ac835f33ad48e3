"""Sequences cut over ranks give what one process computes with them whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import Pool

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

CP = {"cp": 2, "micro_batch_size": 1}
TWO = {
    "tied, five steps": Case(CP, samples=40),
    "untied, clipped, partial last step": Case({**CP, "micro_batch_size": 3}, samples=19, tied=False, clip=0.05),
    "adapters, full recomputation": Case(CP, lora=True, recompute="full"),
    "selective recomputation": Case(CP, recompute="selective"),
    "zero 3 over the same ranks": Case({**CP, "zero": 3}),
    "zero 1 over the same ranks, adapters": Case({**CP, "zero": 1}, lora=True),
}
FOUR = {
    "four ranks": Case({**CP, "cp": 4}),
    "ddp": Case({**CP, "dp_replicate": 2}),
    "zero 3": Case({**CP, "dp_shard": 2}),
    "hsdp": Case({**CP, "dp_replicate": 2, "zero": 3}, tied=False),
    "tp": Case({**CP, "tp": 2}),
    "tp, positions split, zero 3": Case({**CP, "tp": 2, "sequence_parallel": True, "zero": 3}),
    "pipeline": Case({**CP, "pp": 2}),
}
#: Windows over part of the layers or all; learned positions; an encoder, whose attention has no direction.
FAMILIES = ("bert", "gemma3_text", "gpt2", "mistral", "qwen2")


@pytest.mark.parametrize("name", TWO)
def test_two_context_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, TWO[name])


@pytest.mark.parametrize("name", FOUR)
def test_context_ranks_beside_others_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("kind", FAMILIES)
def test_windows_and_other_positions_reach_across_ranks(two: Pool, kind: str) -> None:
    checks.same_steps(two, Case(CP, model=kind, tied=kind != "mistral", layers=2, steps=1))


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, {"cp": 2, "micro_batches": 2})
