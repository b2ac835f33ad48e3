"""Every layout computes what one process computes."""

from __future__ import annotations

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import Pool

DDP = {"dp_replicate": 2, "micro_batch_size": 1}
FSDP = {"dp_shard": 2, "micro_batch_size": 1}
CASES = {
    "ddp, five steps": Case(DDP, samples=40),
    "ddp, tied, one micro-batch": Case({**DDP, "micro_batch_size": 4}),
    "ddp, untied head": Case(DDP, tied=False),
    "ddp, adapters": Case(DDP, lora=True),
    "ddp, partial last step": Case({**DDP, "micro_batch_size": 3}, samples=19),
    "ddp, clipped": Case(DDP, clip=0.05),
    "zero 0 over dp_shard": Case({**FSDP, "zero": 0}),
    "zero 1": Case({**FSDP, "zero": 1}),
    "zero 2": Case({**FSDP, "zero": 2}),
    "zero 3, five steps": Case({**FSDP, "zero": 3}, samples=40),
    "zero 3, untied head": Case(FSDP, tied=False),
    "zero 3, adapters": Case(FSDP, lora=True),
    "zero 1, adapters, partial last step": Case({**FSDP, "zero": 1, "micro_batch_size": 3}, lora=True, samples=19),
    "zero 3, partial last step": Case({**FSDP, "micro_batch_size": 3}, samples=19),
    "zero 3, clipped": Case(FSDP, clip=0.05),
    "zero 3, encoder with a tied head": Case(FSDP, model="bert"),
    "zero 3, learned positions": Case(FSDP, model="gpt2"),
    "zero 3, full recomputation": Case(FSDP, recompute="full"),
    "zero 2, selective recomputation": Case({**FSDP, "zero": 2}, recompute="selective"),
    "ddp, full recomputation, adapters": Case(DDP, recompute="full", lora=True),
}
HSDP = {"dp_replicate": 2, "dp_shard": 2, "micro_batch_size": 1}
FOUR = {
    "hsdp 2x2, zero 3": Case(HSDP),
    "hsdp 2x2, zero 2, untied": Case({**HSDP, "zero": 2}, tied=False),
    "hsdp 2x2, zero 1, adapters": Case({**HSDP, "zero": 1}, lora=True),
    "hsdp 2x2, partial last step, clipped": Case(HSDP, samples=21, clip=0.05),
    "zero 3 over 4": Case({"dp_shard": 4, "micro_batch_size": 2}),
    "ddp over 2x2": Case({**HSDP, "zero": 0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, CASES[name])


SLOW = {"hsdp 2x2, zero 2, untied", "ddp over 2x2", "hsdp 2x2, partial last step, clipped"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in FOUR])
def test_four_ranks_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("layout", [DDP, FSDP])
def test_fp32_stays_within_its_rounding(two: Pool, layout: dict[str, int]) -> None:
    checks.same_steps(two, Case(layout, precision="fp32", lr=0.05), limit=2e-5)


def test_dropout_differs_over_data_ranks_and_repeats(two: Pool) -> None:
    checks.dropout_differs_over_data_ranks(two)


@pytest.mark.parametrize(
    ("zero", "gathers", "scatters"),
    [
        (1, 4, 4),  # three blocks and the root, once a step
        (2, 4, 4 * 4),  # gradients are scattered after each of the four micro-batches
        (3, (3 * 2 + 1) * 4, 4 * 4),  # and blocks gathered for each pass
    ],
)
def test_accumulation_communicates_only_what_its_sharding_needs(
    two: Pool, zero: int, gathers: int, scatters: int
) -> None:
    seen = two.run("parity.wire:step", Case({**FSDP, "zero": zero}, samples=24))[0]["seen"]
    assert {kind: len(sizes) for (kind, _), sizes in seen.items()} == {
        "all_gather": gathers,
        "reduce_scatter": scatters,
    }


@pytest.mark.parametrize("size", [4, 1])
def test_ddp_reduces_once_a_step_however_many_micro_batches(two: Pool, size: int) -> None:
    seen = two.run("parity.wire:step", Case({**DDP, "micro_batch_size": size}, samples=24))[0]["seen"]
    assert {kind: len(sizes) for (kind, _), sizes in seen.items()} == {"all_reduce": 1}
