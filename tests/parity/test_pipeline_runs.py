"""Runs in stages: resumed, moved to other layouts, evaluated and stopped as runs without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import checks
from parity.pool import CaseFailed, Pool
from training.tiny import broken_model, llama_config, make_run, write_model

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four blocks, so that two ranks may have two stages each."""
    return write_model(tmp_path_factory.mktemp("deep") / "model", llama_config(num_hidden_layers=4))


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        ({"pp": 2, "micro_batches": 4}, {}),
        ({"pp": 2, "micro_batches": 4, "schedule": "interleaved"}, {"method": "lora", "lora": {"dropout": 0.2}}),
    ],
    ids=["1f1b", "interleaved, adapters with dropout"],
)
def test_a_run_in_stages_is_resumed_bit_for_bit(
    two: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path, layout: dict[str, Any], fields: dict[str, Any]
) -> None:
    checks.resume_is_exact(two, tmp_path, deep_model, tiny_text, layout, **fields)


PIPELINE, REPLICAS, SHARDS = {"pp": 2, "micro_batches": 4}, {"dp_replicate": 2, "micro_batches": 2}, {"dp_shard": 2}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PIPELINE, REPLICAS),
        ({**SHARDS, "micro_batches": 2}, PIPELINE),
        (PIPELINE, {**PIPELINE, "schedule": "interleaved"}),
    ],
    ids=["stages to replicas", "shards to stages", "two stages to four"],
)
def test_a_checkpoint_of_stages_goes_on_under_another_layout_and_the_other_way_round(
    two: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    checks.resume_is_exact(two, tmp_path, deep_model, tiny_text, first, then=second, limit=1e-5)


def test_a_run_in_stages_logs_and_evaluates_what_replicas_do(
    two: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path
) -> None:
    same_lines(two, tmp_path, deep_model, tiny_text, REPLICAS, PIPELINE)


def test_a_run_in_sharded_stages_whose_weights_one_rank_reads_logs_what_replicas_do(
    four: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path
) -> None:
    staged = {"pp": 2, "dp_shard": 2, "micro_batches": 4, "schedule": "interleaved"}
    same_lines(four, tmp_path, deep_model, tiny_text, {"dp_replicate": 4, "micro_batches": 2}, staged)


def same_lines(pool: Pool, root: Path, model: Path, text: Path, *layouts: dict[str, Any]) -> None:
    """Losses, norms and held-out losses of runs under several layouts are those of the first."""
    lines = []
    for number, layout in enumerate(layouts):
        run = make_run(root / f"tiny-0000000{number}", model, text, layout=layout)
        lines.append(pool.run("parity.cases:train_run", str(run.root), 1)[0])
    for first, other in zip(*lines, strict=True):
        assert other["kind"] == first["kind"]
        for name in ("loss", "grad_norm", "eval_loss"):
            if name in first:
                assert other[name] == pytest.approx(first[name], rel=2e-5)


def test_every_stage_stops_at_a_step_that_is_not_finite(two: Pool, tmp_path: Path, tiny_text: Path) -> None:
    layout = {"pp": 2, "micro_batches": 2}
    run = make_run(tmp_path / "tiny-00000001", broken_model(tmp_path / "model"), tiny_text, layout=layout)
    with pytest.raises(CaseFailed, match=r"NonFinite: the loss of step 1 is not finite; its samples: ([^;]*; ){3}\d"):
        two.run("parity.cases:train_run", str(run.root), 1)
    assert not list(run.checkpoints.glob("step-*"))
