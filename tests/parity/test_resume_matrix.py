"""A run that is stopped under one layout goes on under another as if neither had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from parity.pool import Pool
from training.tiny import llama_config, make_run, write_model
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

#: All of four sequences a step.
LAYOUTS: dict[str, dict[str, Any]] = {
    "ddp": {"dp_replicate": 2},
    "zero 1": {"dp_shard": 2, "zero": 1},
    "zero 2": {"dp_shard": 2, "zero": 2},
    "zero 3": {"dp_shard": 2},
    "tp": {"tp": 2, "micro_batches": 2},
    "sp": {"tp": 2, "micro_batches": 2, "sequence_parallel": True},
    "cp": {"cp": 2, "micro_batches": 2},
    "cp, zero 3": {"cp": 2, "micro_batches": 2, "zero": 3},
    "pp": {"pp": 2, "micro_batches": 2},
    "interleaved": {"pp": 2, "micro_batches": 2, "schedule": "interleaved"},
    "ddp of four": {"dp_replicate": 4, "micro_batch_size": 1},
    "hsdp": {"dp_replicate": 2, "dp_shard": 2, "micro_batch_size": 1},
    "tp, zero 3": {"tp": 2, "dp_shard": 2},
    "sp, pp": {"tp": 2, "pp": 2, "micro_batches": 2, "sequence_parallel": True},
    "pp, zero 3": {"pp": 2, "dp_shard": 2, "micro_batch_size": 1, "micro_batches": 2, "schedule": "interleaved"},
    "cp, tp": {"cp": 2, "tp": 2, "micro_batches": 2},
}
#: Every layout is left once and entered once; neighbours differ in what is cut.
ORDER = (
    "ddp", "tp", "zero 3", "pp", "cp, zero 3", "hsdp", "sp", "interleaved", "zero 1", "cp", "pp, zero 3", "zero 2",
    "tp, zero 3", "ddp of four", "sp, pp", "cp, tp",
)  # fmt: skip
STEPS, LEFT_AFTER = 8, 2
FIELDS = {"duration": f"{STEPS} steps", "checkpoint": {"every": "100 steps"}}


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four blocks, a vocabulary that nothing divides, a tied head."""
    return write_model(tmp_path_factory.mktemp("deep") / "model", llama_config(num_hidden_layers=4, vocab_size=123))


@pytest.fixture(scope="module")
def uninterrupted(
    two: Pool, deep_model: Path, tiny_text: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """Metrics of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole") / "tiny-00000001"
    run = make_run(folder, deep_model, tiny_text, layout=LAYOUTS["ddp"], **FIELDS)
    lines: list[dict[str, Any]] = two.run("parity.cases:train_run", str(run.root), 1, None, True)[0]
    return lines


@pytest.mark.parametrize(("first", "second"), [*zip(ORDER, (*ORDER[1:], ORDER[0]), strict=True)])
def test_losses_after_a_move_are_those_of_a_run_that_stayed(
    two: Pool, four: Pool, tmp_path: Path, deep_model: Path, tiny_text: Path, uninterrupted: list[dict[str, Any]],
    first: str, second: str,
) -> None:  # fmt: skip
    pools = {2: two, 4: four}
    run = make_run(tmp_path / "tiny-00000001", deep_model, tiny_text, layout=LAYOUTS[first], **FIELDS)
    before = run.plan().layout
    lines = pools[before.world_size].run("parity.cases:train_run", str(run.root), 1, LEFT_AFTER, True)[0]
    left = max(line["step"] for line in lines)
    assert LEFT_AFTER <= left <= STEPS - 5, "there must be five losses left to compare"
    after = Layout.from_dict({"micro_batch_size": 2, **LAYOUTS[second]})
    run.plan_file.write_text(Plan(spec_sha256=run.spec().sha256, layout=after, machine="test").to_json())
    lines += pools[after.world_size].run("parity.cases:train_run", str(run.root), 2, None, True)[0]
    assert [line["step"] for line in lines] == [line["step"] for line in uninterrupted]
    for got, want in zip(lines, uninterrupted, strict=True):
        for name in ("loss", "grad_norm", "eval_loss"):
            if want.get(name) is not None:
                assert got[name] == pytest.approx(want[name], rel=1e-12), f"{name} of step {want['step']}"
