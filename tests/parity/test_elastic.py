"""A run that loses a data rank, and later gets one back, is the run that did not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parity.pool import Pool
from training.tiny import make_run


@pytest.fixture(scope="module")
def three() -> Iterator[Pool]:
    """Three ranks."""
    pool = Pool(3)
    yield pool
    pool.close()


@pytest.mark.parametrize(
    ("layout", "wide", "limit"),
    [({"dp_replicate": 3}, True, 1e-12), ({"dp_shard": 3}, False, 1e-5)],
    ids=["ddp in fp64", "zero 3 in fp32"],
)
def test_three_ranks_then_two_then_three_compute_what_three_do(
    two: Pool, three: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, layout: dict[str, int], wide: bool,
    limit: float,
) -> None:  # fmt: skip
    """Six sequences a step: on two ranks, one has four of them and the other two and an empty micro-batch."""
    fields: dict[str, Any] = {"layout": layout, "duration": "8 steps", "checkpoint": {"every": "100 steps"}}
    whole = make_run(tmp_path / "whole" / "tiny-00000001", tiny_model, tiny_text, **fields)
    wanted = three.run("parity.cases:train_run", str(whole.root), 1, None, wide)[0]
    run = make_run(tmp_path / "parted" / "tiny-00000001", tiny_model, tiny_text, **fields)
    parts = [
        pool.run("parity.cases:train_run", str(run.root), attempt, stop_after, wide)[0]
        for attempt, (pool, stop_after) in enumerate([(three, 2), (two, 4), (three, None)], 1)
    ]
    assert all(any(line["kind"] == "step" for line in part) for part in parts), "each number of ranks trained"
    got = [line for part in parts for line in part]
    assert [(line["kind"], line["step"]) for line in got] == [(line["kind"], line["step"]) for line in wanted]
    for one, other in zip(got, wanted, strict=True):
        assert (one["samples"], one["tokens"]) == (other["samples"], other["tokens"])
        for name in ("loss", "grad_norm", "eval_loss"):
            if name in other:
                assert one[name] == pytest.approx(other[name], rel=limit, abs=0), f"step {other['step']}: {name}"
