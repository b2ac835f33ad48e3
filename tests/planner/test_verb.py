"""``trainwright plan`` from outside: spec, question, forced layout, diff, comparison, pictures, imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.errors import InputError
from trainwright.models.layout import Layout
from trainwright.planner.asked import Asked
from trainwright.planner.plan import Plan
from trainwright.reports.plan_answer import Request, Response, respond

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072,
    "tie_word_embeddings": False, "hidden_act": "silu", "rms_norm_eps": 1e-5,
}  # fmt: skip


def ask(*what: str, **options: Any) -> Response:
    names = {f for f in Request.__dataclass_fields__ if f not in ("what", "asked")}
    request = {k: v for k, v in options.items() if k in names}
    return respond(Request(what, Asked(**{k: v for k, v in options.items() if k not in names}), **request))


def _spec(folder: Path, **changes: Any) -> Path:
    model = folder / "llama"
    model.mkdir(exist_ok=True)
    (model / "config.json").write_text(json.dumps(LLAMA))
    (folder / "text.jsonl").write_text('{"text": "a"}\n')
    values = {
        "version": 1, "name": "demo", "model": {"path": "llama"}, "data": {"sources": ["text.jsonl"]},
        "sequence_length": 4096, "global_batch_size": 64, "duration": {"tokens": 1_000_000_000},
        "precision": "bf16", "compute": {"instance": "p5.48xlarge", "nodes": 1}, **changes,
    }  # fmt: skip
    path = folder / "run.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return path


def test_a_spec_is_planned_and_bound_to_its_hash(tmp_path: Path) -> None:
    from trainwright.spec.load import load

    path = _spec(tmp_path)
    plan = Plan.from_dict(ask(str(path)).value)
    assert plan.spec_sha256 == load(path).spec.sha256
    assert plan.layout.world_size == 8
    assert plan.layout.global_batch_size == 64
    assert plan.cost is not None


def test_an_engine_gets_only_layouts_that_it_runs(tmp_path: Path) -> None:
    layout = Plan.from_dict(ask(str(_spec(tmp_path, engine="deepspeed"))).value).layout
    assert (layout.pp, layout.cp, layout.tp, layout.ep) == (1, 1, 1, 1)


def test_what_a_spec_forces_is_kept(tmp_path: Path) -> None:
    path = _spec(tmp_path, micro_batch_size=2, recompute="full", parallelism={"dp_shard": 4, "dp_replicate": 2})
    layout = Plan.from_dict(ask(str(path)).value).layout
    assert (layout.micro_batch_size, layout.recompute, layout.dp_shard, layout.dp_replicate) == (2, "full", 4, 2)


@pytest.mark.parametrize(
    ("forced", "said"),
    [
        ({"tp": 3}, "tp=3 does not divide the 32 attention heads; nearest legal: 2 or 4"),
        ({"pp": 64}, "needs 64 stages, but the model has 32 layers; nearest legal: 32"),
        ({"cp": 3}, "has to divide 8: nearest legal: 2 or 4"),
        ({"ep": 2}, "the model has no experts; leave ep at 1"),
        ({"dp_shard": 8, "tp": 8}, "= 64, but there are 8 accelerators; dp_shard=1 would use all of them"),
        ({"zero": 3, "pp": 8}, "dp_shard is 1: there is nothing to shard over; zero=0"),
    ],
)
def test_degrees_that_leave_no_layout_are_answered_with_the_nearest(
    tmp_path: Path, forced: dict[str, int], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        ask(str(_spec(tmp_path, parallelism=forced)))
    assert said in str(caught.value)


def test_offload_that_the_trainer_would_refuse_is_refused_by_the_plan(tmp_path: Path) -> None:
    own = {"offload": {"optimizer": "cpu", "parameters": "cpu"}, "parallelism": {"tp": 2, "zero": 1}}
    with pytest.raises(InputError) as caught:
        ask(str(_spec(tmp_path, optimizer={"name": "adamw8bit"}, **own)))
    assert [p.field for p in caught.value.problems] == ["parallelism.tp", "parallelism.zero", "optimizer.name"]
    assert all(p.line and p.instead for p in caught.value.problems)
    with pytest.raises(InputError, match="add optimizer: cpu"):
        ask(str(_spec(tmp_path, offload={"parameters": "cpu"})))
    kept = ask(str(_spec(tmp_path, offload={"optimizer": "cpu"}, parallelism={"zero": 2}))).value
    assert kept["layout"]["zero"] == 2


def test_stages_of_a_spec_are_kept_or_refused_where_they_stand(tmp_path: Path) -> None:
    own = {"train": {"script": "train.py"}, "parallelism": {"pp": 2, "stages": [20, 12]}}
    layout = Plan.from_dict(ask(str(_spec(tmp_path, **own))).value).layout
    assert (layout.pp, layout.stages) == (2, (20, 12))
    with pytest.raises(InputError, match=r"parallelism\.stages"):
        ask(str(_spec(tmp_path, **{**own, "parallelism": {"stages": [20, 10]}})))


def test_a_spec_that_does_not_fit_says_what_would(tmp_path: Path) -> None:
    response = ask(str(_spec(tmp_path, compute={"instance": "g5.xlarge", "nodes": 1})))
    assert response.exit_code == 1
    assert response.value["remedies"]
    assert "LoRA" in response.text


def test_a_spec_for_this_machine_is_left_to_the_local_planner(tmp_path: Path) -> None:
    from trainwright.planner.for_spec import plan_spec
    from trainwright.spec.load import load

    assert "this machine" in plan_spec(load(_spec(tmp_path, compute={}))).machine


def test_one_forced_layout_is_evaluated(tmp_path: Path) -> None:
    machine = tmp_path / "own.yaml"
    machine.write_text(
        "accelerator: a100-80gb\ncount: 8\nfabric: nvswitch\nnetwork_gbps: 1600\nnics: 8\nmemory_gib: 1024\n"
    )
    response = ask(
        model_shape="hidden=6144,layers=40,heads=48,vocab=51200",
        machine=str(machine),
        layout="dp_shard=32,tp=8,zero=0,micro_batch_size=8,micro_batches=4,recompute=full",
        sequence_length=2048,
        stack="megatron_2021",
    )
    plan = Plan.from_dict(response.value)
    assert response.exit_code == 0
    assert plan.machine.startswith("32 × own")
    assert plan.step_seconds is not None
    assert plan.step_seconds.total == pytest.approx(9.4, rel=0.15)  # SC21, table 1
    assert plan.layout.global_batch_size == 1024


def test_a_shape_without_a_stated_limit_takes_any_sequence() -> None:
    shape = "hidden=4096,layers=32,heads=32,kv_heads=8,intermediate=14336,vocab=128256,gated=true"
    layout = "dp_shard=8,zero=3,recompute=full"
    value = ask(model_shape=shape, machine="p5.48xlarge", layout=layout, sequence_length=16384).value
    assert value["extra"]["sequence_length"] == 16384
    with pytest.raises(InputError, match="longer than the model's 8192 positions"):
        ask(model_shape=shape + ",max_positions=8192", machine="p5.48xlarge", layout=layout, sequence_length=16384)


def test_a_forced_layout_without_room_is_shown_and_answers_no() -> None:
    response = ask(model="llama-3.1-70b", machine="p5.48xlarge", layout="dp_replicate=8", sequence_length=4096)
    assert response.exit_code == 1
    assert response.value["extra"]["fits"] is False
    assert "does not fit" in response.text


def test_calibration_in_a_machine_file_is_used(tmp_path: Path) -> None:
    times = []
    for line in ("", "calibration: {chip.gemm_efficiency: 0.3}\n"):
        path = tmp_path / "own.yaml"
        path.write_text(f"base: p5.48xlarge\n{line}")
        value = ask(model="llama-3.1-8b", machine=str(path), layout="dp_shard=8,zero=3,recompute=full").value
        times.append(sum(value["step_seconds"].values()))
    assert times[1] > 1.5 * times[0]
    path.write_text("base: p5.48xlarge\ncalibration: {chip.gem_efficiency: 0.3}\n")
    with pytest.raises(InputError, match=r"chip\.gemm_efficiency"):
        ask(model="llama-3.1-8b", machine=str(path), layout="dp_shard=8,zero=3")


def test_machines_are_put_side_by_side() -> None:
    response = ask(
        model="llama-3.1-8b", machine="p5.48xlarge", compare="p4d.24xlarge,p5.48xlarge,trn1.32xlarge", tokens=1e11
    )
    rows = {row["machine"]: row for row in response.value["offers"]}
    assert rows["p5.48xlarge"]["hours"] < rows["p4d.24xlarge"]["hours"]
    assert rows["p5.48xlarge"]["cost"] > 0
    assert rows["trn1.32xlarge"]["layout"]
    assert "p4d.24xlarge" in response.text


def test_a_comparison_needs_no_machine_beside_it() -> None:
    response = ask(model="llama-3.1-8b", compare="p4d.24xlarge,p5.48xlarge")
    assert [row["machine"] for row in response.value["offers"]] == ["p4d.24xlarge", "p5.48xlarge"]
    with pytest.raises(InputError) as error:
        ask(model="llama-3.1-8b", compare="p4d.24xlarg,p5.48xlarge,p9")
    assert ["p4d.24xlarg" in error.value.problems[0].what, "p9" in error.value.problems[1].what] == [True, True]


def test_a_machine_that_does_not_compute_the_precision_is_compared_with_that_reason() -> None:
    rows = ask(model="llama-3.1-8b", precision="fp8", compare="p4d.24xlarge,p5.48xlarge").value["offers"]
    assert [bool(row["layout"]) for row in rows] == [False, True]
    assert rows[0]["reason"] == "a100-40gb does not compute fp8"


def test_tokens_of_unpacked_sequences_are_said_to_be_counted_in_full(tmp_path: Path) -> None:
    for packing, told in ((True, False), (False, True)):
        reasons = ask(str(_spec(tmp_path, data={"sources": ["text.jsonl"], "packing": packing}))).value["reasons"]
        assert any("Without packing" in reason["text"] for reason in reasons) is told
    told_epochs = ask(str(_spec(tmp_path, duration={"epochs": 2}))).value
    assert told_epochs["hours"] is None
    assert any("duration is in epochs" in reason["text"] for reason in told_epochs["reasons"])


def test_a_deadline_chooses_the_nodes() -> None:
    response = ask(
        model="llama-3.1-8b", machine="p5.48xlarge", tokens=1e11, deadline="2d", global_batch_size=512, max_nodes=64
    )
    assert response.value["hours"] <= 48
    never = ask(model="llama-3.1-8b", machine="p5.48xlarge", tokens=1e13, deadline="1h", max_nodes=4)
    assert never.exit_code == 1
    assert "the fastest takes" in never.text
    with pytest.raises(InputError, match="--tokens"):
        ask(model="llama-3.1-8b", machine="p5.48xlarge", deadline="2d")


def test_a_chosen_machine_says_whether_it_keeps_the_limit_at_the_far_edge_of_its_bar() -> None:
    asked = {"model": "llama-3.1-8b", "machine": "p5.48xlarge", "tokens": 2e9, "max_nodes": 1}
    hours = ask(**asked, deadline="5d").value["hours"]
    tight, wide = ask(**asked, deadline=f"{hours * 60 * 1.1:.0f}m"), ask(**asked, deadline="5d", budget=1e5)
    assert "misses the deadline" in tight.text.splitlines()[0]
    assert wide.text.splitlines()[0] == "1 × p5.48xlarge: the cheapest that keeps the deadline and the budget"
    assert wide.value["extra"]["offers"][0]["error_pct"] == wide.value["error_pct"]["time"]


def test_a_plan_says_what_was_planned_and_what_was_taken_unasked() -> None:
    asked = {"model": "llama-3.1-8b", "machine": "p5.48xlarge", "nodes": 2, "tokens": 2e9}
    response = ask(**asked)
    assert response.text.splitlines()[1].startswith(
        "llama-3.1-8b, 8.03B parameters: full, bf16, adamw, native stack; 256 × 4,096 tokens a step, 2B tokens"
    )
    assert response.value["extra"]["workload"]["model"] == "llama-3.1-8b"
    assert any(
        reason["source"] == "--sequence-length and --global-batch-size" for reason in response.value["reasons"]
    )
    given = ask(**asked, sequence_length=4096, global_batch_size=256)
    assert not any(reason["text"].startswith("Not given") for reason in given.value["reasons"])


def test_each_compared_machine_has_its_own_constants(tmp_path: Path) -> None:
    own = tmp_path / "slow.json"
    own.write_text(json.dumps({"base": "p5.48xlarge", "name": "slow", "calibration": {"chip.gemm_efficiency": 0.1}}))
    both = ask(model="llama-3.1-8b", compare=f"{own},p5.48xlarge").value["offers"]
    alone = ask(model="llama-3.1-8b", compare="p5.48xlarge").value["offers"]
    assert both[1]["tokens_per_s"] == alone[0]["tokens_per_s"] > 2 * both[0]["tokens_per_s"]


def test_the_share_of_a_slow_network_that_is_reached_counts(tmp_path: Path) -> None:
    seconds = []
    for name, more in (("as-rated", {}), ("slow", {"network_efficiency": 0.2})):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"base": "dgx-h100", "network_gbps": 100, **more}))
        value = ask(model="llama-3.1-8b", machine=str(path), layout="dp_shard=64,micro_batches=2").value
        seconds.append(sum(value["step_seconds"].values()))
    assert seconds[1] > 1.5 * seconds[0]


def test_two_plans_are_compared(tmp_path: Path) -> None:
    for name, nodes in (("a.json", 1), ("b.json", 2)):
        ask(model="llama-3.1-8b", machine="p5.48xlarge", nodes=nodes, global_batch_size=64, save=tmp_path / name)
    response = ask("diff", str(tmp_path / "a.json"), str(tmp_path / "b.json"))
    assert response.exit_code == 1
    assert any(change["name"] == "machine" for change in response.value["changes"])
    assert ask("diff", str(tmp_path / "a.json"), str(tmp_path / "a.json")).text == "no difference"
    with pytest.raises(InputError, match="two plan files"):
        ask("diff", str(tmp_path / "a.json"))


def test_text_shows_memory_time_and_reasons() -> None:
    text = ask(model="llama-3.1-70b", machine="p5.48xlarge", nodes=8, global_batch_size=256, why=True).text
    for part in ("Memory per rank", "Time of a step", "Why", "Strategies", "Next best", "Not possible", "± "):
        assert part in text


def test_pictures_are_drawn_the_same_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for folder in ("one", "two"):
        ask(
            model="llama-3.1-70b", machine="p5.48xlarge", layout="pp=4,tp=8,micro_batches=16,recompute=full",
            pictures=tmp_path / folder,
        )  # fmt: skip
    for name in ("memory.svg", "timeline.svg"):
        first, second = ((tmp_path / folder / name).read_text() for folder in ("one", "two"))
        assert first == second
        assert first.startswith("<svg")
    assert "stage 3" in first


def test_planning_imports_no_heavy_library() -> None:
    code = (
        "import sys\n"
        "from trainwright.reports.plan_answer import Request, respond\n"
        "from trainwright.planner.asked import Asked\n"
        "r = respond(Request((), Asked(model='llama-3.1-8b', machine='p5.48xlarge')))\n"
        "assert r.value['layout']\n"
        "heavy = {'torch', 'numpy', 'transformers', 'ray', 'matplotlib', 'kubernetes', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_command_line_prints_json_and_sentences() -> None:
    base = [sys.executable, "-m", "trainwright", "plan"]
    good = subprocess.run(
        [*base, "--model", "llama-3.1-8b", "--machine", "p5.48xlarge", "-o", "json"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert good.returncode == 0
    assert Plan.from_dict(json.loads(good.stdout)).layout.world_size == 8
    bad = subprocess.run(
        [*base, "--model", "resnet-50", "--machine", "p5.48xlarge"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert bad.returncode == 2
    assert "convolutions" in bad.stderr
    assert "Traceback" not in bad.stderr


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"budget": float("nan"), "tokens": 1e9}, "--budget"),
        ({"budget": 0.0, "tokens": 1e9}, "--budget"),
        ({"deadline": "5d", "tokens": 1e9, "max_nodes": 0}, "--max-nodes"),
        ({"failures_per_node_hour": float("nan")}, "--failures"),
        ({"failures_per_node_hour": -1.0}, "--failures"),
        ({"layout": "tp=2,tp=4"}, "tp"),
        ({"layout": "tp=999999999999999999999"}, "tp"),
        ({"layout": "pp=4,stages=32,tp=2"}, "stages"),
    ],
)
def test_absurd_limits_and_degrees_are_refused_at_once(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(model="llama-3.1-8b", machine="p5.48xlarge", **options)
    assert field in [p.field for p in caught.value.problems]


def test_a_run_without_failures_is_strict_json() -> None:
    answer = ask(model="llama-3.1-8b", machine="p5.48xlarge", tokens=1e9, failures_per_node_hour=0.0)
    json.dumps(answer.value, allow_nan=False)


@pytest.mark.parametrize(
    "values",
    [
        "calibration: {chip.gemm_efficiency: 0}",
        "calibration: {chip.gemm_efficiency: -1}",
        "calibration: {chip.gemm_efficiency: 2}",
        "accelerator: {memory_nominal_gib: .inf, memory_gb_s: 1, tflops: {bf16: 1}}",
        "accelerator: {memory_nominal_gib: 80, memory_gb_s: 3000, tflops: {bf16: 0}}",
        "memory_gib: .inf",
    ],
)
def test_impossible_figures_of_a_machine_file_are_refused(tmp_path: Path, values: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(f"base: p5.48xlarge\n{values}\n")
    with pytest.raises(InputError):
        ask(model="llama-3.1-8b", machine=str(path))


def test_a_calibration_file_with_impossible_constants_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps({"chip": {"gemm_efficiency": 0.0, "nonsense": 1.0}, "stack": {"reserve_bytes": -1.0}}))
    with pytest.raises(InputError) as caught:
        ask(model="llama-3.1-8b", machine="p5.48xlarge", calibration=path)
    assert {p.field for p in caught.value.problems} == {"gemm_efficiency", "nonsense"}


@pytest.mark.parametrize("change", [{"step_seconds": {"compute": "x"}}, {"extra": None}, {"ranks": "abc"}])
def test_a_damaged_plan_file_is_told(tmp_path: Path, change: dict[str, Any]) -> None:
    plan = ask(model="llama-3.1-8b", machine="p5.48xlarge").value
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(plan))
    bad.write_text(json.dumps({**plan, **change}))
    with pytest.raises(InputError, match="is not a plan"):
        ask("diff", str(good), str(bad))


def test_a_calibration_is_bound_to_the_model_and_machine_that_ran(tmp_path: Path) -> None:
    run, kept = tmp_path / "run", tmp_path / "kept.json"
    run.mkdir()
    (run / "plan.json").write_text(json.dumps(ask(model="llama-3.1-8b", machine="p5.48xlarge").value))
    (run / "metrics.jsonl").write_text('{"kind": "step", "tokens_per_s": 80000}\n' * 9)
    with pytest.raises(InputError, match="is of 8,030,261,248 parameters"):
        ask(model="gpt2", machine="p5.48xlarge", calibrate=run)
    with pytest.raises(InputError, match="name the model and machine that ran"):
        ask(model="llama-3.1-8b", machine="p4d.24xlarge", calibrate=run)
    with pytest.raises(InputError, match="is of sequences of 4096 tokens, not 8192; --sequence-length 4096"):
        ask(model="llama-3.1-8b", machine="p5.48xlarge", sequence_length=8192, calibrate=run)
    ask(model="llama-3.1-8b", machine="p5.48xlarge", calibrate=run, save=kept)
    with pytest.raises(InputError, match="was fitted on h100"):
        ask(model="llama-3.1-8b", machine="p4d.24xlarge", calibration=kept)


def test_a_run_of_this_machine_calibrates_no_accelerator(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(
        Plan(spec_sha256="", layout=Layout(), machine="this machine, 2 CPU cores").to_json()
    )
    with pytest.raises(InputError, match="CPUs are not modelled; calibrate with a run"):
        ask(model="llama-3.1-8b", machine="p5.48xlarge", calibrate=tmp_path)


def test_a_layout_that_the_engine_does_not_run_is_named() -> None:
    def told(**options: Any) -> str:
        return " ".join(
            r["text"] for r in ask(model="llama-3.1-8b", machine="p5.48xlarge", **options).value["reasons"]
        )

    assert "does not cut by tp" in told(layout="tp=8", stack="deepspeed")
    assert "does not cut by" not in told(layout="dp_shard=8", stack="deepspeed")
    assert "does not cut by" not in told(layout="tp=8")
    assert "does not cut by" not in told(layout="tp=8", stack="nemo")


def test_a_batch_that_no_layout_divides_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError) as caught:
        ask(model="llama-3.1-8b", machine="p5.48xlarge", global_batch_size=7, micro_batch_size=4)
    assert "4 or 8 sequences" in caught.value.problems[0].instead


def test_every_wrong_option_and_field_is_told_at_once(tmp_path: Path) -> None:
    machine = tmp_path / "own.yaml"
    machine.write_text("accelerator: h100\ncount: 1000000000\nfabric: cow\nnetwork_gbps: .inf\n")
    with pytest.raises(InputError) as error:
        ask(
            model="lama-3.1-8b", machine=str(machine), rank_by="speed", deadline="soon", budget=-1.0,
            layout="tp=3,pp=-1,foo=2,zero=9",
        )  # fmt: skip
    told = {problem.field for problem in error.value.problems}
    assert {"--rank-by", "--deadline", "--budget", "count", "fabric", "network_gbps"} <= told
    assert "lama-3.1-8b" in str(error.value)
    assert {"foo", "pp", "zero"} <= told


def test_clusters_beyond_belief_are_refused_and_not_searched(tmp_path: Path) -> None:
    machine = tmp_path / "own.yaml"
    machine.write_text("base: p5.48xlarge\ncount: 4096\n")
    with pytest.raises(InputError, match="at most 256 nodes of 4096 are believable"):
        ask(model="llama-3.1-8b", machine=str(machine), nodes=1000)


def test_a_place_that_cannot_be_written_is_told_before_anything_is_planned(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError) as error:
        ask(
            model="llama-3.1-8b", machine="p5.48xlarge", save=tmp_path / "none" / "plan.json",
            pictures=tmp_path / "file" / "pictures",
        )  # fmt: skip
    assert [problem.field for problem in error.value.problems] == ["--save", "--pictures"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("[1]", "other types"), ('{"schema": 1}', "layout is missing"), ("{", "is not a plan"), ("", "is not a plan")],
)
def test_what_is_no_plan_is_told_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        ask("diff", str(path), str(path))


@pytest.mark.parametrize("text", ["[1]", '{"chip": {"gemm_efficiency": "x"}, "stack": {}}', "{", '{"chip": 1}'])
def test_what_is_no_calibration_is_told_in_words(tmp_path: Path, text: str) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is not a calibration"):
        ask(model="llama-3.1-8b", machine="p5.48xlarge", calibration=path)


def test_an_accelerator_without_a_training_precision_is_told_so(tmp_path: Path) -> None:
    machine = tmp_path / "own.yaml"
    machine.write_text(
        "accelerator: {memory_nominal_gib: 80, memory_gb_s: 3000, tflops: {int8: 100}}\ncount: 1\nnetwork_gbps: 1\n"
    )
    with pytest.raises(InputError, match="it can train in none"):
        ask(model="llama-3.1-8b", machine=str(machine))
