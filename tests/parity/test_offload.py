"""State that is kept and updated in host memory: the same numbers, and a run that goes on from its checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import checks
from parity.pool import Pool
from training.tiny import make_run

HOST: dict[str, Any] = {"optimizer": "cpu"}


@pytest.mark.parametrize(
    ("layout", "fields"),
    [
        ({"dp_shard": 2, "zero": 1, "micro_batches": 2}, {}),
        ({"dp_shard": 2, "zero": 3}, {"offload": {"optimizer": "cpu", "parameters": "cpu"}, "clip": 0.5}),
        ({"dp_shard": 2, "zero": 2}, {"method": "lora", "precision": "bf16"}),
    ],
    ids=["zero 1, accumulation", "zero 3, parameters too, clipped", "zero 2, adapters, bf16"],
)
def test_losses_are_those_of_a_run_that_offloads_nothing(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, layout: dict[str, int], fields: dict[str, Any]
) -> None:
    found = []
    for name, offload in (("on", HOST), ("off", {})):
        more = {**fields, "offload": fields.get("offload", HOST) if offload else {}}
        run = make_run(tmp_path / name / "tiny-00000001", tiny_model, tiny_text, layout=layout, **more)
        lines = two.run("parity.cases:train_run", str(run.root), 1)[0]
        found.append([(line.get("loss"), line.get("grad_norm"), line.get("eval_loss")) for line in lines])
    assert found[0] == found[1]


def test_an_offloaded_run_goes_on_bit_for_bit(two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, {"dp_shard": 2}, offload=HOST)
