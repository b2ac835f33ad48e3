"""DeepSpeed's ZeRO computes what one process computes, in fp32."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from parity import checks
from parity.cases import Case
from parity.pool import Pool
from training.tiny import lines, make_run, train
from trainwright.checkpoints.manager import CheckpointManager
from trainwright.checkpoints.resume import at_step
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import RunFolder
from trainwright.training.from_deepspeed import convert

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

pytest.importorskip("deepspeed")
#: Every parameter partitioned, small ones too.
ALL = {"deepspeed": {"zero_optimization": {"stage3_param_persistence_threshold": 0}}}


def zero(stage: int, **fields: object) -> Case:
    """A case of the tiny Llama on two ranks."""
    return Case({"dp_shard": 2, "zero": stage, "micro_batch_size": 1}, precision="fp32", lr=0.05, **fields)


CASES = {
    "zero 0, accumulation": (zero(0), {}),
    "zero 1, adapters": (zero(1, lora=True), {}),
    "zero 3, adapters": (zero(3, lora=True), ALL),
    "zero 1": (zero(1), {}),
    "zero 2": (zero(2), {}),
    "zero 3": (zero(3), ALL),
    "zero 3, small parameters whole, untied head": (zero(3, tied=False), {}),
    "zero 2, clipped, partial last step": (zero(2, clip=0.05, samples=19), {}),
    "zero 3, full recomputation": (zero(3, recompute="full"), ALL),
    "zero 2, mixture of experts": (zero(2, model="mixtral"), {}),
    "zero 2, optimizer on the CPU": (zero(2), {"offload": {"optimizer": "cpu"}}),
}


# The first case of a pool imports DeepSpeed, which takes longer than all cases together.
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    case, fields = CASES[name]
    checks.same_steps(two, case, limit=2e-5, steps=("parity.zero:steps", fields))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "fields"),
    [
        (0, {}),
        (1, {"method": "lora", "lora": {"dropout": 0.2}}),
        (2, {"clip": 0.5, "schedule": {"warmup": "2 steps"}}),
        (3, ALL),
        (3, {"method": "lora", "lora": {"rank": 2}, "optimizer": {"name": "lion", "lr": 1e-3}}),
        (2, {"offload": {"optimizer": "cpu"}}),
        (1, {"precision": "bf16"}),
        (2, {"precision": "bf16"}),
        (3, {"precision": "bf16", "method": "lora"}),
        (2, {"optimizer": {"name": "sgd", "momentum": 0.9}, "duration": "1 epochs"}),
    ],
    ids=str,
)
def test_losses_after_a_resume_equal_an_uninterrupted_run_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, stage: int, fields: dict[str, Any]
) -> None:
    layout = {"dp_shard": 2, "zero": stage, "micro_batches": 2}
    checks.resume_is_exact(two, tmp_path, tiny_model, tiny_text, layout, engine="deepspeed", **fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stage", "precision", "own"),
    [
        (1, "fp32", {}),
        (2, "bf16", {}),
        (2, "fp32", {"round_robin_gradients": True}),
        (3, "fp32", {"sub_group_size": 2000}),
        (3, "bf16", {}),
    ],
    ids=str,
)
def test_deepspeeds_own_checkpoints_are_taken_over_bit_for_bit(
    two: Pool, tmp_path: Path, tiny_model: Path, stage: int, precision: str, own: dict[str, Any]
) -> None:
    saved = two.run(
        "parity.stock:train_and_save", str(tmp_path / "ds"), str(tiny_model), stage, precision, own, True
    )[0]
    done = convert(tmp_path / "ds", tmp_path / "ours")
    assert (done.stage, done.ranks, done.step, done.frozen > 0) == (stage, 2, 2, stage > 1)
    state: dict[str, Any] = {
        "model": {name: torch.zeros_like(kinds[""]) for name, kinds in saved.items()},
        "optimizer": {
            name: {"step": torch.zeros(()), **{k: torch.zeros_like(v) for k, v in kinds.items() if k}}
            for name, kinds in saved.items()
        },
    }
    with CheckpointManager(tmp_path / "ours", spec_sha256="", layout=None, attempt=1) as checkpoints:
        checkpoints.load(at_step(tmp_path / "ours", 2), state)
    for name, kinds in saved.items():
        assert torch.equal(state["model"][name], kinds[""]), name
        assert state["optimizer"][name]["step"] == 2
        for key in ("exp_avg", "exp_avg_sq") if "round_robin_gradients" not in own else ():
            assert torch.equal(state["optimizer"][name][key], kinds[key]), (name, key)


@pytest.mark.slow
def test_a_run_goes_on_from_deepspeeds_own_checkpoint_under_any_engine(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    two.run("parity.stock:train_and_save", str(tmp_path / "ds"), str(tiny_model), 3, "fp32", {}, False)
    found = []
    for name, layout, engine in (
        ("a", {"dp_replicate": 2}, "native"),
        ("b", {"dp_shard": 2}, "native"),
        ("c", {"dp_shard": 2, "zero": 2}, "deepspeed"),
    ):
        run = make_run(tmp_path / name / "tiny-00000001", tiny_model, tiny_text, layout=layout, engine=engine)
        convert(tmp_path / "ds", run.checkpoints)
        lines = two.run("parity.cases:train_run", str(run.root), 1)[0]
        found.append([line["loss"] for line in lines if line["kind"] == "step"])
    assert len(found[0]) == 4, "it began anew"
    assert found[1] == pytest.approx(found[0], rel=1e-5)
    assert found[2] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second", "fields"),
    [
        ({"engine": "deepspeed", "stage": 3}, {"engine": "native", "stage": 3}, {}),
        ({"engine": "native", "stage": 0}, {"engine": "deepspeed", "stage": 2}, {"clip": 0.5}),
        ({"engine": "deepspeed", "stage": 1}, {"engine": "deepspeed", "stage": 3}, {"method": "lora"}),
    ],
    ids=str,
)
def test_a_run_goes_on_under_another_engine_or_stage(
    two: Pool, tmp_path: Path, tiny_model: Path, tiny_text: Path, first: dict[str, Any], second: dict[str, Any],
    fields: dict[str, Any],
) -> None:  # fmt: skip
    def run(name: str, kind: dict[str, Any]) -> RunFolder:
        layout = {"dp_shard": 2, "zero": kind["stage"]} if kind["stage"] else {"dp_replicate": 2}
        return make_run(
            tmp_path / name / "tiny-00000001", tiny_model, tiny_text, layout=layout, engine=kind["engine"], **fields
        )

    whole, before, after = run("whole", first), run("before", first), run("after", second)
    wanted = two.run("parity.cases:train_run", str(whole.root), 1)[0]
    two.run("parity.cases:train_run", str(before.root), 1, 2)
    before.checkpoints.rename(after.checkpoints)
    got = two.run("parity.cases:train_run", str(after.root), 2)[0]
    steps = {line["step"]: line["loss"] for line in wanted if line["kind"] == "step"}
    assert [line["step"] for line in got if line["kind"] == "step"][-1] == 6
    for line in got:
        if line["kind"] == "step":
            assert line["loss"] == pytest.approx(steps[line["step"]], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1], ids=lambda number: number.name)
def test_a_signal_saves_and_asks_to_be_resumed_and_nothing_is_lost(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, number: signal.Signals
) -> None:
    fields: dict[str, Any] = {"layout": {"dp_shard": 2, "zero": 2}, "engine": "deepspeed", "duration": "60 steps"}
    fields["checkpoint"] = {"every": "50 steps"}
    whole = make_run(tmp_path / "whole" / "tiny-00000001", tiny_model, tiny_text, **fields)
    parted = make_run(tmp_path / "parted" / "tiny-00000001", tiny_model, tiny_text, **fields)
    process = train(parted, wait=False)
    while process.poll() is None and not (parted.metrics.exists() and len(lines(parted, "step")) >= 3):
        time.sleep(0.05)
    process.send_signal(number)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == TrainExit.RESUME_ME, said
    before = lines(parted, "step")[-1]["step"]
    assert 3 <= before < 60
    assert (parted.checkpoints / f"step-{before:08d}" / "manifest.json").is_file()
    for run, attempt in ((parted, 2), (whole, 1)):
        assert train(run, attempt).returncode == TrainExit.FINISHED
    got, wanted = ([(x["step"], x["loss"], x["grad_norm"]) for x in lines(run, "step")] for run in (parted, whole))
    assert got == wanted
