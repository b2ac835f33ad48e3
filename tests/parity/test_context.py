"""Sequences cut over ranks give what one process computes with them whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import checks
from parity.cases import Case
from parity.pool import Pool
from training.tiny import make_run

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

CP = {"cp": 2, "micro_batch_size": 1}
TWO = {
    "tied": Case(CP),
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
SLOW = {"hsdp", "tp"}
#: Windows over part of the layers or all; learned positions; an encoder, whose attention has no direction.
FAMILIES = ("bert", "gemma3_text", "gpt2", "mistral", "qwen2")


@pytest.mark.parametrize("name", TWO)
def test_two_context_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, TWO[name])


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in FOUR])
def test_context_ranks_beside_others_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("kind", FAMILIES)
def test_windows_and_other_positions_reach_across_ranks(two: Pool, kind: str) -> None:
    checks.same_steps(two, Case(CP, model=kind, tied=kind != "mistral", layers=2, steps=1))


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, {"cp": 2, "micro_batches": 2})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"cp": 2, "micro_batches": 2, "zero": 3}, {"dp_replicate": 2}),
        ({"dp_shard": 2}, {"cp": 2, "micro_batches": 2}),
    ],
    ids=["cp with zero 3 to ddp", "zero 3 to cp"],
)
def test_a_run_goes_on_under_another_layout(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, first: dict[str, int], second: dict[str, int]
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, first, then=second, limit=1e-5)


def test_losses_and_held_out_losses_are_those_of_other_layouts(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    layouts = [
        {"dp_replicate": 2},
        {"tp": 2, "micro_batches": 2, "sequence_parallel": True},
        {"cp": 2, "micro_batches": 2},
        {"cp": 2, "micro_batches": 2, "zero": 3},
    ]
    losses = []
    for number, layout in enumerate(layouts):
        run = make_run(tmp_path / f"tiny-0000000{number}", tiny_model, tiny_text, layout=layout)
        lines = two.run("parity.cases:train_run", str(run.root), 1)[0]
        losses.append([line["loss" if line["kind"] == "step" else "eval_loss"] for line in lines])
    for other in losses[1:]:
        assert other == pytest.approx(losses[0], rel=1e-5)
