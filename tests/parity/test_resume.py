"""A run that was stopped and resumed is the run that was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import checks
from parity.pool import Pool
from training.tiny import make_run


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        ({"dp_replicate": 2}, {}),
        ({"dp_shard": 2}, {}),
        ({"dp_shard": 2, "zero": 1, "micro_batches": 2}, {"method": "lora", "lora": {"dropout": 0.2}}),
        ({"dp_replicate": 2}, {"duration": "1 epochs", "optimizer": {"name": "sgd", "momentum": 0.9}}),
    ],
    ids=["ddp", "zero 3", "zero 1, adapters with dropout, accumulation", "a whole epoch of sgd with momentum"],
)
def test_losses_after_a_resume_equal_an_uninterrupted_run_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, layout: dict[str, int], fields: dict[str, object]
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, layout, **fields)


@pytest.mark.parametrize(
    ("first", "second"), [({"dp_replicate": 2}, {"dp_shard": 2}), ({"dp_shard": 2}, {"dp_replicate": 2})]
)
def test_a_run_goes_on_under_another_layout(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, first: dict[str, int], second: dict[str, int]
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, first, then=second, limit=1e-5)


def test_rates_follow_the_schedule(two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    checks.rates_follow_the_schedule(two, tmp_path, tiny_model, tiny_text)


@pytest.mark.parametrize("fields", [{}, {"method": "lora"}], ids=["full", "adapters"])
def test_weights_that_one_rank_reads_are_those_that_every_rank_reads(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, fields: dict[str, object]
) -> None:
    losses = []
    for number, layout in enumerate([{"dp_replicate": 2}, {"dp_shard": 2}, {"dp_shard": 2, "zero": 1}]):
        run = make_run(tmp_path / f"tiny-0000000{number}", tiny_model, tiny_text, layout=layout, **fields)
        lines = two.run("parity.cases:train_run", str(run.root), 1)[0]
        losses.append([line["loss" if line["kind"] == "step" else "eval_loss"] for line in lines])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    assert losses[2] == pytest.approx(losses[0], rel=1e-5)
