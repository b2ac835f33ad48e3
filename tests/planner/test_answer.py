"""Plans as a whole: golden answers, reasons, what helps when nothing fits, prices, limits, diffs, calibration."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import AnswerNo, InputError
from trainwright.facts import instances
from trainwright.models import registry
from trainwright.models.layout import Layout
from trainwright.planner import calibrate
from trainwright.planner.answer import DoesNotFit, Question, answer, answer_layout
from trainwright.planner.constants import constants_for
from trainwright.planner.differ import diff
from trainwright.planner.evaluate import evaluate
from trainwright.planner.goodput import best_interval, efficiency, goodput
from trainwright.planner.inputs import dims_of, machine_of
from trainwright.planner.offers import front, offers, pick, sizes
from trainwright.planner.plan import Plan
from trainwright.planner.remedies import lora_params
from trainwright.planner.schema import plan_schema
from trainwright.planner.search import Space, runnable
from trainwright.planner.step import StepModel
from trainwright.planner.workload import Workload

DOCS = Path(__file__).parents[2] / "docs"
GOLDEN = Path(__file__).parent / "golden_plans.json"


def question(name: str, machine: str, nodes: int, sequence: int, batch: int, **changes: Any) -> Question:
    dims = dims_of(registry.load(name))
    price = changes.pop("price", None)
    space = Space(forced=changes.pop("forced", {}))
    workload = replace(Workload(dims, sequence, batch), **changes)
    if workload.method != "full":
        workload = replace(workload, lora_params=lora_params(workload))
    return Question(workload, machine_of(instances.get(machine), nodes, price=price), space)


CASES: dict[str, tuple[Any, ...]] = {
    "GPT-2 on one node": ("gpt2", "dgx-a100", 1, 1024, 512, {}),
    "SmolLM2 135M on one A10G": ("smollm2-135m", "g5.xlarge", 1, 2048, 32, {}),
    "Llama 3.1 8B, full, one H100 node": ("llama-3.1-8b", "p5.48xlarge", 1, 8192, 64, {}),
    "Llama 3.1 8B, full, one 40 GB node": ("llama-3.1-8b", "p4d.24xlarge", 1, 2048, 64, {}),
    "Llama 3.1 8B, LoRA, four A10G": ("llama-3.1-8b", "g5.12xlarge", 1, 2048, 32, {"method": "lora"}),
    "Llama 3.1 70B, QLoRA, one H100 node": ("llama-3.1-70b", "p5.48xlarge", 1, 4096, 64, {"method": "qlora"}),
    "Llama 3.1 70B, full, eight H100 nodes": ("llama-3.1-70b", "p5.48xlarge", 8, 8192, 256, {}),
    "Llama 3.1 70B, sharded data only": (
        "llama-3.1-70b", "p5.48xlarge", 8, 4096, 512, {"forced": {"tp": 1, "pp": 1, "cp": 1}},
    ),
    "Mixtral 8x7B, full, four H100 nodes": ("mixtral-8x7b", "p5.48xlarge", 4, 4096, 256, {}),
    "Llama 3.1 405B, full, 128 H100 nodes": ("llama-3.1-405b", "p5.48xlarge", 128, 8192, 2048, {}),
}  # fmt: skip


def _summary(case: tuple[Any, ...]) -> dict[str, Any]:
    *place, changes = case
    plan = answer(question(*place, **changes))
    assert plan.step_seconds is not None
    return {
        "layout": str(plan.layout),
        "recompute": plan.layout.recompute,
        "peak_gib": round(plan.extra["peak_bytes"] / 2**30, 1),
        "step_seconds": float(f"{plan.step_seconds.total:.3g}"),
        "mfu": round(plan.mfu or 0.0, 2),
    }


@pytest.mark.parametrize("name", CASES)
def test_well_known_cases_get_the_plans_on_file(name: str) -> None:
    """After a deliberate change: python -m tests.planner.test_answer writes the file anew; review the difference."""
    assert _summary(CASES[name]) == json.loads(GOLDEN.read_text())[name]


def test_the_classic_table_comes_out_by_computation() -> None:
    """DP when it fits; state sharded when it does not; tensor parallelism stays in the node."""
    small = answer(question("gpt2", "dgx-a100", 1, 1024, 512)).layout
    assert (small.dp_replicate, small.tp, small.pp, small.zero) == (8, 1, 1, 0)
    eight = answer(question("llama-3.1-8b", "p5.48xlarge", 1, 8192, 64))
    assert eight.layout.dp_shard * eight.layout.tp > 1
    assert "plain data parallelism cannot hold it" in eight.reasons[0].text
    for name in ("Llama 3.1 70B, full, eight H100 nodes", "Llama 3.1 405B, full, 128 H100 nodes"):
        *place, changes = CASES[name]
        assert answer(question(*place, **changes)).layout.tp <= 8
    huge = answer(question(*CASES["Llama 3.1 405B, full, 128 H100 nodes"][:-1])).layout
    assert huge.tp > 1
    assert huge.pp > 1
    sparse = answer(question(*CASES["Mixtral 8x7B, full, four H100 nodes"][:-1])).layout
    assert sparse.ep > 1


def test_megatron_turing_nlg_gets_the_layout_that_it_was_trained_with() -> None:
    """530B on 280 DGX A100: tensor 8, pipeline 35, data 8 (Smith et al. 2022, §2.2)."""
    layout = answer(
        question("megatron-529.6b", "dgx-a100", 280, 2048, 2240, recipe="megatron", stack="megatron")
    ).layout
    assert (layout.tp, layout.pp, layout.data_parallel) == (8, 35, 8)


def test_why_adds_the_strategy_table_and_two_rules_checked() -> None:
    plan = answer(replace(question("llama-3.1-8b", "p5.48xlarge", 2, 4096, 128), why=True))
    rows = {row["name"]: row for row in plan.extra["strategies"]}
    assert not rows["data (DDP)"]["fits"]
    assert rows["sharded data (FSDP, ZeRO-3)"]["fits"]
    assert rows["expert"]["layout"] is None
    assert all(0 <= row["communication_share"] < 1 for row in rows.values() if row["layout"])
    text = " ".join(reason.text for reason in plan.reasons)
    assert "saves 3–4×" in text
    assert "3D parallelism for 100B" in text
    assert all(reason.source for reason in plan.reasons)


def test_the_strategy_table_holds_what_the_engine_runs() -> None:
    """The built-in trainer runs no zero bubble and no ep beside tp; a program of one's own may."""
    asked = replace(question("mixtral-8x7b", "p5.48xlarge", 8, 4096, 512), why=True)
    limited = replace(asked, space=runnable(asked.space, "native", "mixtral"))
    layouts = [row["layout"] or "" for row in answer(limited).extra["strategies"]]
    assert not any("zero_bubble" in text or ("tp=" in text and "ep=" in text) for text in layouts)
    assert any("zero_bubble" in (row["layout"] or "") for row in answer(asked).extra["strategies"])


def test_when_nothing_fits_the_smallest_changes_are_named() -> None:
    asked = question("llama-3.1-70b", "p5.48xlarge", 1, 8192, 64)
    with pytest.raises(DoesNotFit) as raised:
        answer(asked)
    error = raised.value
    assert error.exit_code == 1
    needed, planned = map(float, re.search(r"needs ([\d.]+) GiB, ([\d.]+) of", str(error)).groups())  # type: ignore[union-attr]
    assert needed > planned  # the head-room is taken off: "needs 37.2, 39.4 are usable" would contradict itself
    changes = {remedy.change for remedy in error.remedies}
    assert any("LoRA" in change for change in changes)
    assert any("nodes instead of 1" in change for change in changes)
    assert all(remedy.bytes_saved > 0 and remedy.peak <= asked.machine.memory_bytes for remedy in error.remedies)
    assert error.plan is not None
    assert not error.plan.extra["fits"]
    json.dumps(error.to_dict())


@pytest.mark.parametrize(("machine", "offered"), [("p5.4xlarge", False), ("p5.48xlarge", True)])
def test_offloading_is_offered_only_where_the_trainer_does_it(machine: str, offered: bool) -> None:
    """Torch offloads what FSDP has sharded: not on one rank, and not beside tensor or pipeline parallelism."""
    asked = question("llama-3.1-8b" if not offered else "llama-2-70b", machine, 1, 4096, 64)
    with pytest.raises(DoesNotFit) as raised:
        answer(asked)
    found = [r for r in raised.value.remedies if "offload" in r.change]
    assert bool(found) == offered
    assert all("zero=3" in r.layout and "tp=" not in r.layout and "pp=" not in r.layout for r in found)


def test_a_forced_choice_that_prevents_a_fit_is_the_first_thing_to_drop() -> None:
    asked = question("llama-3.1-8b", "p5.48xlarge", 1, 8192, 64, forced={"dp_shard": 1, "cp": 1, "tp": 1, "pp": 1})
    with pytest.raises(DoesNotFit) as raised:
        answer(asked)
    assert any("forced" in r.change or "planner" in r.change for r in raised.value.remedies)


def test_a_plan_survives_being_written_and_read(tmp_path: Path) -> None:
    plan = answer(question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 64))
    path = tmp_path / "plan.json"
    path.write_text(plan.to_json())
    assert Plan.read(path).to_json() == plan.to_json()


def test_hours_and_dollars_follow_from_tokens_and_price() -> None:
    plan = answer(question("llama-3.1-8b", "p5.48xlarge", 2, 4096, 128, tokens=1e12, price=50.0))
    assert plan.hours == pytest.approx(1e12 / (plan.tokens_per_s or 0) / 3600)
    assert plan.cost == pytest.approx((plan.hours or 0) * 2 * 50)
    good = plan.extra["goodput"]
    assert 0.9 < good["goodput"] < 1
    assert good["expected_cost"] > (plan.cost or 0)
    assert answer(question("llama-3.1-8b", "p5.48xlarge", 2, 4096, 128, tokens=1e12)).cost is None


def test_young_and_daly() -> None:
    """For C much smaller than M the interval is sqrt(2·C·M) and no other interval loses less."""
    c, m = 30.0, 3600.0 * 24
    best = best_interval(c, m)
    assert best == pytest.approx((2 * c * m) ** 0.5, rel=0.02)
    at_best = efficiency(best, c, 0.0, m)
    assert all(efficiency(best * f, c, 0.0, m) <= at_best + 1e-4 for f in (0.25, 0.5, 2, 4))
    assert best_interval(3 * m, m) == m
    more_nodes = [goodput(nodes, c).goodput for nodes in (8, 64, 512, 2048)]
    assert more_nodes == sorted(more_nodes, reverse=True)
    assert goodput(8, c, failures_per_node_hour=0.0).goodput > 0.99


def test_deadline_and_budget_choose_nodes() -> None:
    asked = question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 1024, tokens=1e11, price=55.0)
    found = offers(asked, sizes(asked.machine, 64, 1024))
    hours = [offer.hours for offer, _ in found if offer.hours]
    assert hours == sorted(hours, reverse=True)
    offer, _ = pick(found, deadline_hours=48, budget=None)
    assert (offer.hours or 0) <= 48
    cheaper = [o for o, _ in found if o.hours and o.hours <= 48 and (o.cost or 0) < (offer.cost or 0)]
    assert not cheaper
    fastest, _ = pick(found, deadline_hours=None, budget=(offer.cost or 0) * 1.5)
    assert (fastest.cost or 0) <= (offer.cost or 0) * 1.5
    with pytest.raises(AnswerNo, match="no machine meets"):
        pick(found, deadline_hours=0.01, budget=None)
    edge = front([o for o, _ in found])
    assert [o.cost for o in edge] == sorted((o.cost or 0 for o in edge), reverse=True)


def test_diff_names_what_changed_and_by_how_much() -> None:
    asked = question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 64)
    a = answer(asked)
    b = answer_layout(asked, Layout(dp_shard=8, zero=3, micro_batches=8, recompute="full"))
    changes = {change.name: change for change in diff(a, b)}
    assert changes["layout.recompute"].after == "full"
    assert (changes["step_seconds.total"].percent or 0) > 10
    assert diff(a, a) == []


def test_calibration_recovers_the_constants_of_a_run(tmp_path: Path) -> None:
    """A "measured" run made with another sustained share of peak is explained by that share."""
    asked = question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 64)
    layout = Layout(dp_shard=8, zero=3, micro_batches=8, recompute="full")
    slower = constants_for("h100", "nvswitch", "native", {"chip": {"gemm_efficiency": 0.41}})
    truth = evaluate(StepModel(asked.workload, asked.machine, slower), layout)
    metrics = tmp_path / "metrics.jsonl"
    rows = [
        {"kind": "step", "tokens_per_s": truth.tokens_per_s / (5 if i < 3 else 1), "memory_bytes": truth.peak + 10**9}
        for i in range(20)
    ]
    metrics.write_text("\n".join(json.dumps(row) for row in rows) + "\nnot json\n")
    rate, peak = calibrate.measured(metrics)
    seconds = 64 * 4096 / rate
    found = calibrate.calibrate(asked, layout, seconds, peak, "run")
    assert found.chip["gemm_efficiency"] == pytest.approx(0.41, abs=1e-3)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(found.to_dict()))
    again = answer_layout(replace(asked, overlay=calibrate.read(path, asked.machine.accelerator)), layout)
    assert again.step_seconds is not None
    assert again.step_seconds.total == pytest.approx(truth.seconds.total, rel=1e-3)


def test_calibration_refuses_what_it_cannot_explain(tmp_path: Path) -> None:
    asked = question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 64)
    with pytest.raises(AnswerNo, match="any share of peak"):
        calibrate.calibrate(asked, Layout(dp_shard=8, zero=3, micro_batches=8), 1e-6, None, "run")
    short = tmp_path / "metrics.jsonl"
    short.write_text('{"kind": "step", "tokens_per_s": 1.0}\n')
    with pytest.raises(AnswerNo, match="timed steps"):
        calibrate.measured(short)
    with pytest.raises(InputError, match="is not a calibration"):
        calibrate.read(short, "h100")


def test_unmeasured_accelerators_get_wider_error_bars_and_say_so() -> None:
    plan = answer(question("gpt2", "trn1.32xlarge", 1, 1024, 512))
    known = answer(question("gpt2", "dgx-a100", 1, 1024, 512))
    assert plan.error_pct is not None
    assert known.error_pct is not None
    assert plan.error_pct["time"] > known.error_pct["time"]
    assert any("not calibrated" in reason.text for reason in plan.reasons)


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [({"offload_optimizer": "cpu"}, "no run that offloads"), ({"method": "qlora"}, "no run on 4-bit weights")],
)
def test_offloading_and_4_bit_weights_were_not_measured_and_the_plan_says_so(
    changes: dict[str, Any], doubt: str
) -> None:
    forced = {"pp": 1, "tp": 1, "cp": 1, "zero": 3}
    plan = answer(question("llama-3.1-8b", "p5.48xlarge", 1, 2048, 64, forced=forced, **changes))
    assert plan.error_pct == {"time": 35.0, "memory": 25.0}
    assert any(doubt in reason.text for reason in plan.reasons)


def test_the_schema_names_exactly_what_a_plan_writes() -> None:
    schema = plan_schema()
    values = answer(question("llama-3.1-8b", "p5.48xlarge", 1, 4096, 64)).to_dict()
    assert set(values) == set(schema["properties"])
    assert set(values["layout"]) == set(schema["properties"]["layout"]["properties"])
    assert set(values["ranks"][0]["bytes"]) == set(
        schema["properties"]["ranks"]["items"]["properties"]["bytes"]["properties"]
    )
    assert all(value for value in schema["properties"].values()), "a field without a type"
    assert json.loads((DOCS / "plan.schema.json").read_text()) == schema


def test_a_faster_layout_that_was_passed_over_is_named_with_its_doubts() -> None:
    plan = answer(question(*CASES["Llama 3.1 70B, full, eight H100 nodes"][:-1]))
    texts = [reason.text for reason in plan.reasons]
    assert any("% faster, but no run of the native stack with" in text for text in texts)
    assert not any("Outside the calibrated range" in text for text in texts)


def test_a_layout_that_was_passed_over_is_told_once_and_recomputation_is_held_against_small_micro_batches() -> None:
    plan = answer(question(*CASES["Llama 3.1 70B, full, eight H100 nodes"][:-1]))
    texts = [reason.text for reason in plan.reasons]
    assert sum("% faster" in text for text in texts) == 1
    recompute = next(text for text in texts if text.startswith("recompute=full"))
    assert plan.layout.micro_batch_size > 1
    assert re.search(r"without it a rank needs ([\d.]+) GiB of 79.1, with micro-batches of 1 ([\d.]+) GiB", recompute)


def test_a_host_that_is_too_small_is_not_answered_with_negative_savings() -> None:
    asked = question("llama-3.1-70b", "p5.48xlarge", 1, 4096, 64, recipe="deepspeed", stack="deepspeed")
    asked = replace(
        asked,
        workload=replace(asked.workload, offload_optimizer="cpu"),
        machine=replace(asked.machine, host_memory_bytes=2**40),
        space=Space(forced={"tp": 1, "pp": 1, "cp": 1}),
    )
    with pytest.raises(DoesNotFit, match="the host needs") as raised:
        answer(asked)
    assert raised.value.remedies
    assert "saves -" not in str(raised.value)


def test_the_far_edge_of_the_error_bar_still_gives_3d_beyond_100b() -> None:
    layout = answer(question(*CASES["Llama 3.1 405B, full, 128 H100 nodes"][:-1])).layout
    assert layout.tp > 1
    assert layout.pp > 1
    assert layout.data_parallel > 1


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: _summary(case) for name, case in CASES.items()}, indent=2) + "\n")


def test_the_printed_bar_grows_with_each_doubt_as_the_ranking_does() -> None:
    forced = {"pp": 1, "tp": 1, "cp": 1, "zero": 3}

    def bar(**changes: Any) -> float:
        plan = answer(question("llama-3.1-8b", "p5.48xlarge", 1, 2048, 64, forced=forced, **changes))
        assert plan.error_pct is not None
        return plan.error_pct["time"]

    none, one = bar(), bar(offload_optimizer="cpu")
    two = bar(offload_optimizer="cpu", method="qlora")
    assert none < one < two
    assert two - none == pytest.approx(2**0.5 * (one - none), abs=0.1), "independent doubts add in quadrature"
