"""Mixtures of experts: every cut of experts computes what one process computes, balancing loss included."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity import checks, mixtures
from parity.cases import Case
from parity.pool import CaseFailed, Pool
from training.tiny import make_run, write_model
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan

pytestmark = pytest.mark.parity  # minutes in all: run by `make parity`

EP2 = {"dp_shard": 2, "ep": 2, "micro_batch_size": 1}


def mixtral(layout: dict[str, int], **fields: object) -> Case:
    """A case of the tiny Mixtral."""
    return Case(layout, model="mixtral", **fields)


CASES = {
    "ep 2, five steps": mixtral(EP2, samples=40),
    "ep 2, zero 0": mixtral({**EP2, "zero": 0}),
    "ep 2, zero 1, larger micro-batches": mixtral({**EP2, "zero": 1, "micro_batch_size": 2}),
    "ep 2, partial last step, clipped": mixtral({**EP2, "micro_batch_size": 3}, samples=19, clip=0.05),
    "ep 2, full recomputation": mixtral(EP2, recompute="full"),
    "ep 2, adapters on attention": mixtral(EP2, lora=True),
    "no ep, replicas": mixtral({"dp_replicate": 2, "micro_batch_size": 2}),
    "no ep, zero 3": mixtral({"dp_shard": 2, "micro_batch_size": 1}),
    "no ep, zero 2, adapters on attention": mixtral({"dp_shard": 2, "zero": 2, "micro_batch_size": 1}, lora=True),
    "over tp, full recomputation": mixtral({"tp": 2, "micro_batch_size": 1}, recompute="full"),
    "over tp, positions split, clipped": mixtral(
        {"tp": 2, "sequence_parallel": True, "micro_batch_size": 1}, clip=0.05
    ),
    "in stages, untied, selective recomputation": mixtral(
        {"pp": 2, "micro_batch_size": 1}, tied=False, recompute="selective"
    ),
    "in stages, interleaved, adapters on attention": mixtral(
        {"pp": 2, "micro_batch_size": 1, "schedule": "interleaved"}, layers=4, lora=True
    ),
    "ep 2, qwen3, dense layers between": Case(EP2, model="qwen3_moe"),
    "ep 2, qwen2, shared experts": Case(EP2, model="qwen2_moe"),
    "ep 2, deepseek, balanced by a bias": Case(EP2, model="deepseek_v3", layers=2),
}
FOUR = {
    "ep 2 x fsdp 2": mixtral({"dp_shard": 4, "ep": 2, "micro_batch_size": 1}),
    "ep 2 x fsdp 2, experts that cannot be dealt out": mixtral(
        {"dp_shard": 4, "ep": 2, "micro_batch_size": 1}, fields={"num_local_experts": 6}
    ),
    "ep 4": mixtral({"dp_shard": 4, "ep": 4, "micro_batch_size": 1}),
    "ep 2 x hsdp 2": mixtral({"dp_replicate": 2, "dp_shard": 2, "ep": 2, "micro_batch_size": 1}),
    "ep 2 x replicas 2": mixtral({"dp_replicate": 2, "dp_shard": 2, "ep": 2, "zero": 0, "micro_batch_size": 1}),
    "hsdp 2x2": mixtral({"dp_replicate": 2, "dp_shard": 2, "micro_batch_size": 1}),
    "over tp x fsdp 2": mixtral({"tp": 2, "dp_shard": 2, "micro_batch_size": 1}, samples=19),
    "over tp x replicas 2": mixtral({"tp": 2, "dp_replicate": 2, "micro_batch_size": 1}, lora=True),
    "over tp x pipeline 2": mixtral({"tp": 2, "pp": 2, "micro_batch_size": 1}),
    "pipeline 2 x fsdp 2": mixtral({"pp": 2, "dp_shard": 2, "micro_batch_size": 1}),
    "ep 2 x pipeline 2": mixtral({"pp": 2, "dp_shard": 2, "ep": 2, "micro_batch_size": 1}),
}


@pytest.mark.parametrize("name", CASES)
def test_two_ranks_compute_what_one_process_does(two: Pool, name: str) -> None:
    checks.same_steps(two, CASES[name])


@pytest.mark.parametrize("name", FOUR)
def test_four_ranks_compute_what_one_process_does(four: Pool, name: str) -> None:
    checks.same_steps(four, FOUR[name])


@pytest.mark.parametrize("keep_half", [False, True], ids=["all kept", "some dropped"])
def test_experts_that_nobody_visits_have_a_gradient_of_zeros(two: Pool, keep_half: bool) -> None:
    for errors in two.run("parity.mixtures:exchange", keep_half):
        assert max(errors.values()) < 1e-12, errors


def test_fp32_with_the_models_own_router_stays_within_its_rounding(two: Pool) -> None:
    checks.same_steps(two, mixtral(EP2, precision="fp32", lr=0.05, steps=2), limit=2e-5)


def test_loads_are_those_of_all_ranks_and_count_once_under_recomputation(two: Pool) -> None:
    case = mixtral(EP2, recompute="full")
    wanted = checks.expected(case)
    for results in two.run("parity.cases:steps", case):
        for got, want in zip(results, wanted, strict=True):
            loads = sum(want["loads"])
            assert got["experts"]["load"] == pytest.approx((loads / loads.sum()).tolist(), abs=1e-6)
            assert got["experts"]["dropped"] == 0


@pytest.mark.parametrize("layout", [EP2, {"dp_replicate": 2, "micro_batch_size": 2}], ids=["ep 2", "replicas"])
def test_capacity_drops_the_same_tokens_whatever_the_cut(two: Pool, layout: dict[str, int]) -> None:
    full = mixtral({"dp_shard": 2, "micro_batch_size": 4, "zero": 0}, experts={"capacity": 0.75})
    wanted = two.run("parity.cases:steps", full)[0]
    got = two.run("parity.cases:steps", mixtral(layout, experts={"capacity": 0.75}))[0]
    for one, other in zip(got, wanted, strict=True):
        assert one["experts"]["dropped"] == other["experts"]["dropped"] > 0
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-12)
        assert one["norm"] == pytest.approx(other["norm"], rel=1e-12)


@pytest.fixture(scope="module")
def tiny_mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny Mixtral."""
    config = mixtures.config(mixtral({}, fields={"router_aux_loss_coef": 0.02}))
    return write_model(tmp_path_factory.mktemp("mixture") / "model", config)


@pytest.mark.parametrize(
    ("first", "then", "limit"),
    [
        ({"dp_shard": 2, "ep": 2}, None, 0.0),
        ({"dp_shard": 2, "ep": 2}, {"dp_replicate": 2}, 1e-5),
        ({"dp_shard": 2}, {"dp_shard": 2, "ep": 2}, 1e-5),
        ({"dp_shard": 2, "ep": 2, "zero": 0}, {"dp_shard": 2, "ep": 2, "zero": 2}, 1e-5),
    ],
    ids=["the same", "ep 2 to replicas", "fsdp to ep 2", "zero 0 to zero 2 under ep 2"],
)
def test_a_run_goes_on_from_its_checkpoint_whatever_cut_its_experts(
    two: Pool,
    tmp_path: Path,
    tiny_mixture: Path,
    tiny_text: Path,
    first: dict[str, int],
    then: dict[str, int] | None,
    limit: float,
) -> None:
    checks.resume_is_exact(two, tmp_path, tiny_mixture, tiny_text, first, then=then, limit=limit)


def test_four_ranks_write_the_whole_of_each_parameter_once(
    four: Pool, two: Pool, tmp_path: Path, tiny_mixture: Path, tiny_text: Path
) -> None:
    layout = {"dp_shard": 4, "ep": 2, "micro_batch_size": 1}
    run = make_run(tmp_path / "tiny-00000001", tiny_mixture, tiny_text, layout=layout)
    before = four.run("parity.cases:train_run", str(run.root), 1, 2)[0]
    cut = Layout.from_dict({"dp_shard": 2, "micro_batch_size": 2})
    run.plan_file.write_text(Plan(spec_sha256=run.spec().sha256, layout=cut, machine="test").to_json())
    after = two.run("parity.cases:train_run", str(run.root), 2)[0]
    other = make_run(tmp_path / "tiny-00000002", tiny_mixture, tiny_text, layout={"dp_replicate": 2})
    wanted = two.run("parity.cases:train_run", str(other.root), 1)[0]
    got = [line["loss"] for line in before + after if line["kind"] == "step"]
    assert got == pytest.approx([line["loss"] for line in wanted if line["kind"] == "step"], rel=1e-5)
    assert len(after[0]["experts"]["load"] if "experts" in after[0] else after[1]["experts"]["load"]) == 8


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        (Case({**EP2, "ep": 2}), "llama has no experts; set parallelism.ep: 1"),
        (mixtral(EP2, fields={"num_local_experts": 5}), "does not divide the 5 experts; use one of 1, 5"),
        (mixtral({"cp": 2, "micro_batch_size": 1}), "over context ranks were not proved.*set parallelism.cp: 1"),
        (mixtral(EP2, experts={"balance": "bias"}), "those of mixtral have none; use experts.balance: loss"),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(two: Pool, case: Case, sentence: str) -> None:
    with pytest.raises(CaseFailed, match=sentence):
        two.run("parity.cases:steps", case)
