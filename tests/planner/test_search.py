"""The search: equal to brute force, obedient to what is forced, and honest about what it rejects."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.facts import instances
from trainwright.models.layout import Layout, LayoutError
from trainwright.planner.constants import constants_for
from trainwright.planner.doubts import common_doubts, layout_doubts, pessimism
from trainwright.planner.evaluate import evaluate
from trainwright.planner.inputs import machine_of
from trainwright.planner.legality import layout_troubles
from trainwright.planner.search import Space, runnable, search
from trainwright.planner.step import StepModel
from trainwright.planner.workload import Dims, Machine, Workload, gpt

DENSE = gpt(2048, 8, 16, 32000, kv_heads=4, gated=True, bias=False, name="dense")
SPARSE = gpt(1024, 8, 8, 32000, gated=True, bias=False, experts=8, top_k=2, name="sparse")


def _model(dims: Dims, per_node: int, nodes: int, batch: int, memory_gib: float, sequence: int = 4096) -> StepModel:
    machine: Machine = replace(
        machine_of(instances.get("dgx-h100"), nodes), per_node=per_node, memory_bytes=int(memory_gib * 2**30)
    )
    workload = Workload(dims, sequence, batch, recipe="native", stack="native")
    return StepModel(workload, machine, constants_for("h100", "nvswitch", "native"))


def _weight(model: StepModel, layout: Layout) -> float:
    """Half a percent for each moving part: pp, cp, tp, ep, another schedule, sharding (twice), replicas of it.

    What was not calibrated on counts at the far edge of its bar.
    """
    parts = [layout.pp > 1, layout.cp > 1, layout.tp > 1, layout.ep > 1, layout.schedule != "1f1b", layout.zero > 0]
    weight = 1 + 0.005 * (sum(parts) + (layout.zero > 0) + (layout.dp_replicate > 1 and layout.dp_shard > 1))
    # native: only data-parallel runs of eager modules were measured, so each other cut is a doubt.
    doubts = sum([layout.tp > 1, layout.pp > 1, layout.cp > 1, layout.pp > 1 and layout.schedule == "zero_bubble"])
    return weight * (1 + doubts**0.5 * 10 / 125)


def _brute_force(model: StepModel, space: Space) -> tuple[float, int]:
    """(best weighted time, number of fitting layouts) by trying every combination of fields."""
    w, machine = model.workload, model.machine
    world, best, fitting = machine.world_size, float("inf"), 0
    powers = [n for n in range(1, world + 1) if world % n == 0]
    recomputes = ("none", "full")
    for pp, rep, shard, cp, tp in itertools.product(powers, repeat=5):
        if pp * rep * shard * cp * tp != world or tp > machine.per_node or pp > w.dims.layers:
            continue
        if cp > 1 and w.sequence_length // cp < 1024:
            continue
        zeros: tuple[Any, ...] = (1, 2, 3) if shard > 1 else (0, 1, 2, 3) if cp > 1 else (0,)
        schedules = (("1f1b", 1),) if pp == 1 else (
            ("1f1b", 1), ("zero_bubble", 1), *(("interleaved", c) for c in space.chunk_counts)
        )  # fmt: skip
        for zero, mbs, recompute, (schedule, chunks), ep in itertools.product(
            zeros, range(1, w.global_batch_size + 1), recomputes, schedules, range(1, max(1, w.dims.experts) + 1)
        ):
            per_rank = w.global_batch_size // (rep * shard)
            if w.global_batch_size % (rep * shard) or per_rank % mbs or pp * chunks > w.dims.layers:
                continue
            try:
                layout = Layout(
                    pp=pp, dp_replicate=rep, dp_shard=shard, cp=cp, tp=tp, ep=ep, zero=zero,
                    sequence_parallel=tp > 1, schedule=schedule, micro_batch_size=mbs, micro_batches=per_rank // mbs,
                    recompute=recompute,
                )  # fmt: skip
                layout = layout.with_(stages=model.stages(layout, pp * chunks))
            except LayoutError:
                continue
            if list(layout_troubles(w, machine, layout)):
                continue
            found = evaluate(model, layout)
            if found.peak > machine.memory_bytes * (1 - space.headroom):
                continue
            fitting += 1
            best = min(best, found.seconds.total * _weight(model, layout))
    return best, fitting


@pytest.mark.parametrize(
    ("dims", "per_node", "nodes", "batch", "memory"),
    [(DENSE, 4, 1, 8, 80), (DENSE, 4, 2, 8, 12), (DENSE, 4, 2, 16, 7), (SPARSE, 4, 1, 8, 12), (SPARSE, 4, 2, 8, 8)],
)
def test_search_finds_what_brute_force_finds(
    dims: Dims, per_node: int, nodes: int, batch: int, memory: float
) -> None:
    model = _model(dims, per_node, nodes, batch, memory)
    space = Space(chunk_counts=(2,))
    expected, fitting = _brute_force(model, space)
    found = search(model, space, keep=1)
    assert (fitting > 0) == bool(found.ranked)
    if found.ranked:
        layout = found.ranked[0].layout
        assert found.ranked[0].seconds.total * _weight(model, layout) == pytest.approx(expected)


@given(
    st.sampled_from([DENSE, SPARSE]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([16, 64, 96]),
    st.sampled_from([6, 20, 80]),
)
@settings(deadline=None, max_examples=25)
def test_every_plan_uses_every_rank_and_the_whole_batch(dims: Dims, nodes: int, batch: int, memory: int) -> None:
    model = _model(dims, 8, nodes, batch, memory)
    found = search(model)
    for one in (*found.ranked, *found.front):
        layout = one.layout
        assert layout.world_size == 8 * nodes
        assert layout.global_batch_size == batch
        assert (layout.dp_shard * layout.cp) % layout.ep == 0
        assert sum(layout.stages) == dims.layers
        assert not list(layout_troubles(model.workload, model.machine, layout))
        assert one.fits


def test_the_ranking_is_by_time_and_the_front_is_not_dominated() -> None:
    model = _model(DENSE, 8, 2, 64, 30)
    found = search(model)
    weighted = [one.seconds.total * _weight(model, one.layout) for one in found.ranked]
    assert weighted == sorted(weighted)
    for one, other in itertools.permutations(found.front, 2):
        assert one.seconds.total < other.seconds.total or one.peak < other.peak


def test_a_stack_on_an_accelerator_that_it_was_not_measured_on_is_in_doubt() -> None:
    model = _model(DENSE, 4, 1, 8, 80)
    for stack, accelerator, doubted in (
        ("nemo", "h100", False), ("nemo", "h200", False), ("nemo", "a100-80gb", True), ("fsdp", "h100", True),
        ("fsdp", "a100-40gb", False), ("native", "h100", False),
    ):  # fmt: skip
        machine = replace(model.machine, accelerator=accelerator)
        constants = constants_for(accelerator, "nvswitch", stack)
        found = common_doubts(replace(model.workload, stack=stack), machine, constants)
        assert any(f"no run of the {stack} stack on" in text for text in found) == doubted, (stack, accelerator)


def test_what_was_not_calibrated_ranks_by_the_far_edge_of_its_error_bar() -> None:
    model = _model(DENSE, 4, 1, 8, 80)
    short, long = model.workload, replace(model.workload, sequence_length=8192)
    native, megatron = model.constants, constants_for("h100", "nvswitch", "megatron")
    plain = Layout(dp_shard=4, zero=1, micro_batches=2, stages=(8,))
    context = Layout(dp_shard=2, cp=2, zero=1, micro_batches=4, stages=(8,))
    pipe = Layout(pp=4, micro_batches=8, stages=(2, 2, 2, 2))
    bubbles = pipe.with_(schedule="zero_bubble")
    assert pessimism(short, native, plain) == pessimism(short, megatron, plain) == 1
    assert pessimism(short, native, pipe) == pytest.approx(1 + 10 / 125)
    assert pessimism(short, native, bubbles) == pytest.approx(1 + 2**0.5 * 10 / 125)
    assert pessimism(short, megatron, pipe) == 1
    assert pessimism(short, megatron, bubbles) == pytest.approx(1 + 20 / 115)
    assert pessimism(short, megatron, context) == pytest.approx(1 + 20 / 115)
    assert pessimism(long, megatron, context) == 1
    assert not layout_doubts(short, native, search(model).ranked[0].layout)
    wide = Layout(dp_shard=256, zero=3, stages=(8,))
    assert pessimism(short, megatron, wide) == pytest.approx(1 + 20 / 115)
    assert pessimism(short, megatron, wide.with_(dp_shard=128, dp_replicate=2)) == 1
    assert pessimism(short, megatron, wide.with_(zero=1)) == 1
    # An accelerator that was not measured has a wide bar already; what its layouts do is no less in doubt for that.
    unknown = constants_for("a10g", "pcie", "native")
    assert pessimism(short, unknown, pipe) == pytest.approx(1 + 10 / 135)
    assert pessimism(short, unknown, plain) == 1


MIXTURE = gpt(1024, 8, 8, 32000, gated=True, bias=False, experts=6, top_k=2, ffn=4096, name="six experts")


def test_the_built_in_trainer_deals_experts_over_ep_or_whole_over_tp() -> None:
    model = _model(MIXTURE, 8, 1, 64, 80)
    found = search(model, runnable(Space(), "native", "mixtral"), keep=50)
    for one in found.ranked:
        assert MIXTURE.experts % one.layout.tp == 0
        assert one.layout.ep == 1 or one.layout.tp == 1
        assert one.layout.cp == 1
    reasons = " ".join(one.reason for one in found.rejected)
    assert "tp=4 does not divide the 6 experts" in reasons
    assert "either over ep or over tp" in reasons
    assert "mixtures of experts over context ranks" in reasons
    other = search(model, Space(forced={"tp": 4}), keep=50)
    assert other.ranked, "another program may cut an expert's columns"


def test_families_that_the_trainer_does_not_cut_get_no_such_layout() -> None:
    found = search(_model(DENSE, 8, 1, 64, 80), runnable(Space(), "native", "t5"), keep=50)
    assert found.ranked
    assert all((one.layout.tp, one.layout.pp) == (1, 1) for one in found.ranked)
    assert {"tp=2 is not offered", "pp=2 is not offered"} <= {r.reason.split(":")[0] for r in found.rejected}


def test_deepspeed_shards_over_all_data_ranks() -> None:
    forced = {"pp": 1, "cp": 1, "tp": 1, "ep": 1}
    found = search(_model(DENSE, 8, 1, 64, 80), runnable(Space(forced=forced), "deepspeed", "llama"), keep=50)
    assert found.ranked
    assert all(one.layout.zero and one.layout.dp_replicate == 1 for one in found.ranked)
    assert any("shards over all data ranks" in one.reason for one in found.rejected)


def test_state_is_sharded_over_context_ranks_where_there_is_no_other_data_rank() -> None:
    """One long sequence on eight ranks: cp=8 alone would hold eight copies of the state."""
    found = search(_model(DENSE, 8, 1, 1, 10, 65536), Space(forced={"cp": 8}))
    assert found.ranked[0].layout.dp_shard == 1
    assert found.ranked[0].layout.zero > 0


@pytest.mark.parametrize("offload", ["none", "cpu"])
def test_deepspeed_on_one_rank_gets_the_zero_that_its_engine_needs(offload: Any) -> None:
    """The engine refuses bf16 and offloading without ZeRO (training/deepspeed.py), on one rank as on many."""
    model = _model(DENSE, 1, 1, 8, 80)
    workload = replace(model.workload, recipe="deepspeed", stack="deepspeed", offload_optimizer=offload)
    found = search(StepModel(workload, model.machine, model.constants), runnable(Space(), "deepspeed", "llama"))
    assert found.ranked
    assert all(one.layout.zero > 0 for one in found.ranked)
    assert not list(layout_troubles(workload, model.machine, found.ranked[0].layout))


def test_ranking_by_memory_finds_the_smallest_peak() -> None:
    model = _model(DENSE, 4, 1, 8, 80)
    smallest = search(model, objective="memory", keep=1).ranked[0]
    assert smallest.peak <= min(one.peak for one in search(model, keep=50).ranked)


def test_forced_fields_are_kept() -> None:
    found = search(_model(DENSE, 8, 2, 64, 80), Space(forced={"tp": 2, "pp": 2, "zero": 3, "recompute": "full"}))
    assert found.ranked
    for one in found.ranked:
        layout = one.layout
        assert (layout.tp, layout.pp, layout.zero, layout.recompute) == (2, 2, 3, "full")


def test_rejections_say_why() -> None:
    found = search(_model(DENSE, 8, 1, 8, 2))
    assert not found.ranked
    assert found.closest is not None
    reasons = {one.reason for one in found.rejected}
    assert any("tp=8 does not divide the 4 key-value heads" in reason for reason in reasons)
    assert any(reason.startswith("memory: needs") for reason in reasons)


def test_two_searches_give_the_same_answer() -> None:
    first, second = (search(_model(DENSE, 8, 4, 64, 40)) for _ in range(2))
    assert [one.layout for one in first.ranked] == [one.layout for one in second.ranked]


def test_offloaded_state_must_fit_into_the_host() -> None:
    model = _model(DENSE, 4, 1, 8, 80)
    offloading = replace(model.workload, recipe="deepspeed", stack="deepspeed", offload_optimizer="cpu")
    for gib, possible in ((1, False), (512, True)):
        machine = replace(model.machine, host_memory_bytes=gib * 2**30)
        found = search(StepModel(offloading, machine, model.constants), Space(forced={"tp": 1, "pp": 1, "cp": 1}))
        assert bool(found.ranked) == possible
        assert any(one.reason.startswith("host memory") for one in found.rejected) != possible
