"""bf16 and fp16 over ranks: every layout computes the same, near to fp32, and goes on bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity import checks
from parity.pool import Pool
from training.tiny import make_run

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

LAYOUTS: list[dict[str, int]] = [{"dp_replicate": 2}, {"dp_shard": 2}, {"dp_shard": 2, "zero": 1}]
#: Adapters in fp32 beside a frozen base in half precision, in one unit of sharding.
ADAPTERS: dict[str, Any] = {"method": "lora", "lora": {"rank": 2}}


@pytest.mark.parametrize(
    ("precision", "fields"),
    # Adapters in fp16 are below: DDP halves the loss scale once more than FSDP2 at first, so their steps differ.
    [("bf16", {}), ("bf16", ADAPTERS), ("fp16", {})],
    ids=["bf16", "bf16, adapters", "fp16"],
)
def test_layouts_agree_in_half_precision_and_with_fp32(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, precision: str, fields: dict[str, Any]
) -> None:
    found, skipped = {}, {}
    runs = [("fp32", LAYOUTS[0]), *((precision, layout) for layout in LAYOUTS)]
    for number, (kind, layout) in enumerate(runs):
        run = make_run(
            tmp_path / f"tiny-0000000{number}", tiny_model, tiny_text, layout=layout, precision=kind,
            optimizer={"lr": 1e-3}, **fields,
        )  # fmt: skip
        lines = two.run("parity.cases:train_run", str(run.root), 1)[0]
        skipped[number] = [line["skipped"] for line in lines if line["kind"] == "step"]
        found[number] = [line["loss" if line["kind"] == "step" else "eval_loss"] for line in lines]
    assert skipped[1] == skipped[2] == skipped[3]
    assert skipped[1][-1] <= (2 if precision == "fp16" else 0), "hardly a step was taken, which proves nothing"
    for number in (1, 2, 3):
        assert found[number] != found[0], "nothing was computed in half precision"
        assert found[number] == pytest.approx(found[0], rel=2e-2)
        assert found[number] == pytest.approx(found[1], rel=5e-3)


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=["ddp", "zero 3"])
def test_adapters_beside_a_base_in_fp16_go_on_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, layout: dict[str, int]
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, layout, precision="fp16", **ADAPTERS)
