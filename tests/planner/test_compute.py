"""Compute: FLOPs as printed, monotonicities of time, what a step is made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.facts import instances
from trainwright.models import flops, registry
from trainwright.models.layout import Layout
from trainwright.planner.collectives import step_collectives
from trainwright.planner.constants import constants_for
from trainwright.planner.evaluate import evaluate, model_flops_per_token
from trainwright.planner.inputs import dims_of, machine_of
from trainwright.planner.step import StepModel
from trainwright.planner.workload import Machine, Workload, gpt

DGX = machine_of(instances.get("dgx-h100"), 4)
LLAMA_8B = gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False, name="8b")


def model(machine: Machine = DGX, **changes: Any) -> StepModel:
    workload = replace(Workload(LLAMA_8B, 4096, 256, recipe="native", stack="native"), **changes)
    return StepModel(workload, machine, constants_for(machine.accelerator, machine.fabric, workload.stack))


@pytest.mark.parametrize(("hidden", "layers", "heads"), [(2304, 24, 24), (12288, 80, 96), (25600, 128, 160)])
def test_flops_are_those_of_sc21_and_korthikanti(hidden: int, layers: int, heads: int) -> None:
    """96·B·s·l·h²(1 + s/6h + V/16lh) with recomputation (SC21, eq. 3); 72·… without (Korthikanti, appendix A)."""
    s, vocab = 2048, 51200
    dims = gpt(hidden, layers, heads, vocab, bias=False)
    plain = 72 * s * layers * hidden**2 * (1 + s / (6 * hidden) + vocab / (12 * layers * hidden))
    got = s * model_flops_per_token(dims, s)
    assert got == pytest.approx(plain)
    again = 24 * s * layers * hidden**2 * (1 + s / (6 * hidden))
    sc21 = 96 * s * layers * hidden**2 * (1 + s / (6 * hidden) + vocab / (16 * layers * hidden))
    assert got + again == pytest.approx(sc21)


def test_causal_convention_leaves_out_half_of_the_attention() -> None:
    full, causal = (model_flops_per_token(LLAMA_8B, 8192, full_attention=f) for f in (True, False))
    assert full - causal == pytest.approx(6 * 32 * 8192 * 4096)


@pytest.mark.parametrize("sequence", [4096, 6000, 8192, 65536])
def test_windows_leave_out_what_the_exact_count_leaves_out(sequence: int) -> None:
    shape = registry.load("mistral-7b-v0.1")
    exact = flops.attention_core(shape, 0, sequence) / (4 * shape.heads * shape.key_dim)
    assert dims_of(shape).attention_span(sequence) / 2 == pytest.approx(exact, rel=1e-3)


def test_small_matrices_use_the_chip_worse_than_large_ones() -> None:
    compute = model().compute
    rates = [2 * n**3 / compute.gemm(n, n, n) for n in (256, 1024, 4096, 16384)]
    assert rates == sorted(rates)
    assert rates[0] < 0.3 * rates[-1]


layouts = st.builds(
    lambda pp, tp, shard, replicate, mbs, m, recompute, schedule: Layout(
        pp=pp,
        tp=tp,
        dp_shard=shard,
        dp_replicate=replicate,
        zero=3 if shard > 1 else 0,
        sequence_parallel=tp > 1,
        micro_batch_size=mbs,
        micro_batches=m,
        recompute=recompute,
        schedule=schedule,
    ),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from([1, 4, 8]),
    st.sampled_from([1, 2]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 4, 8]),
    st.sampled_from(["none", "selective", "full"]),
    st.sampled_from(["gpipe", "1f1b", "zero_bubble"]),
)


@given(layouts)
@settings(deadline=None)
def test_more_recomputation_never_takes_more_memory_or_less_time(layout: Layout) -> None:
    for stack in ("native", "megatron_2021"):
        m = model(stack=stack)
        steps = [evaluate(m, replace(layout, recompute=r)) for r in ("none", "selective", "full")]  # type: ignore[arg-type]
        assert steps[0].peak >= steps[1].peak >= steps[2].peak
        assert steps[0].seconds.total <= steps[1].seconds.total + 1e-12
        assert steps[1].seconds.total <= steps[2].seconds.total + 1e-12


@given(layouts, st.floats(1.05, 8.0))
@settings(deadline=None)
def test_a_better_machine_is_never_slower(layout: Layout, factor: float) -> None:
    base = evaluate(model(), layout).seconds.total
    for name in ("intra_bandwidth", "inter_bandwidth", "memory_bandwidth"):
        better = replace(DGX, **{name: getattr(DGX, name) * factor})
        assert evaluate(model(better), layout).seconds.total <= base * (1 + 1e-9)
    faster = replace(DGX, peak=tuple((name, value * factor) for name, value in DGX.peak))
    assert evaluate(model(faster), layout).seconds.total <= base * (1 + 1e-9)


@given(layouts, st.sampled_from([2, 4]))
@settings(deadline=None)
def test_more_shards_never_hold_more_state(layout: Layout, factor: int) -> None:
    m = model()
    wider = replace(layout, dp_shard=layout.dp_shard * factor, zero=3)
    narrow, wide = evaluate(m, layout).ranks, evaluate(m, wider).ranks
    for a, b in zip(narrow, wide, strict=True):
        assert b.optimizer <= a.optimizer
        assert b.weights + b.gradients <= a.weights + a.gradients


@given(layouts, st.sampled_from([2, 3]))
@settings(deadline=None)
def test_more_micro_batches_take_longer_but_never_more_than_in_proportion(layout: Layout, factor: int) -> None:
    m = model()
    one = evaluate(m, layout).seconds.total
    more = evaluate(m, replace(layout, micro_batches=layout.micro_batches * factor)).seconds.total
    assert one < more <= factor * one * (1 + 1e-9)


@given(layouts)
@settings(deadline=None)
def test_parts_are_non_negative_and_add_up(layout: Layout) -> None:
    seconds = evaluate(model(), layout).seconds
    assert all(value >= 0 for value in vars(seconds).values())
    assert seconds.total == pytest.approx(sum(vars(seconds).values()))


def test_collectives_are_listed_for_the_dimensions_in_use() -> None:
    layout = Layout(pp=2, tp=4, dp_shard=4, zero=3, sequence_parallel=True, micro_batches=64, stages=(16, 16))
    found = step_collectives(model().workload, layout, layout.stages)
    assert {c.dim for c in found} == {"tp", "pp", "dp_shard"}
    gathers = next(c for c in found if (c.kind, c.dim) == ("all_gather", "dp_shard"))
    assert gathers.count == 2 * 16 * 64
    assert gathers.bytes == pytest.approx(2 * (LLAMA_8B.attention_params + LLAMA_8B.mlp_params) / 4, rel=0.01)


def test_tensor_parallelism_across_nodes_costs_more_than_inside() -> None:
    inside = evaluate(model(), Layout(tp=8, dp_shard=4, zero=1, sequence_parallel=True, micro_batches=64))
    outside = evaluate(model(), Layout(tp=16, dp_shard=2, zero=1, sequence_parallel=True, micro_batches=128))
    assert outside.seconds.tp > 3 * inside.seconds.tp


def test_a_stack_that_gathers_at_the_end_of_the_update_waits_for_it() -> None:
    dims = gpt(4096, 8, 32, 32000, tied=False)
    machine = machine_of(instances.get("dgx-h100"), 8)
    layout = Layout(dp_shard=64, zero=1, micro_batches=8, stages=(8,))
    times = {}
    for overlap in (True, False):
        constants = constants_for("h100", "nvswitch", "nanotron", {"stack": {"gather_overlap": overlap}})
        model = StepModel(Workload(dims, 4096, 512, recipe="nanotron", stack="nanotron"), machine, constants)
        times[overlap] = model.seconds(layout, layout.stages)
        gather = model.network.all_gather(dims.params * 2, model.groups(layout)["dp_shard"])
    assert 0.7 * gather < times[False].dp - times[True].dp <= gather


def test_a_node_receives_every_expert_whether_or_not_its_ranks_share_them_out() -> None:
    """Eight ranks of a node with the same experts share one copy's traffic; with an eighth each, each has its own."""
    dims = gpt(4096, 8, 32, 32000, gated=True, bias=False, experts=8, top_k=2)
    machine = replace(machine_of(instances.get("dgx-h100"), 8), intra_bandwidth=1e15)
    exposed = {"stack": {"overlap_window": 0.0}, "network": {"inter_ramp": 0.0, "inter_alpha": 0.0}}
    constants = constants_for("h100", "nvswitch", "native", exposed)
    seconds = {}
    for ep in (1, 8):
        layout = Layout(dp_shard=64, ep=ep, zero=3, micro_batches=2, stages=(8,))
        seconds[ep] = StepModel(Workload(dims, 4096, 128), machine, constants).seconds(layout, layout.stages).dp
    assert seconds[8] == pytest.approx(seconds[1], rel=0.02)


@pytest.mark.parametrize("stack", ["native", "deepspeed", "megatron"])
def test_shards_of_gradients_are_reduced_in_every_micro_batch(stack: str) -> None:
    """Who keeps no whole gradients cannot wait for the last one (DeepSpeed's partition_gradients)."""
    constants = constants_for("h100", "nvswitch", stack, {"stack": {"overlap_window": 0.0}})
    evaluator = StepModel(Workload(LLAMA_8B, 4096, 256, recipe=stack, stack=stack), DGX, constants)
    exposed = {
        zero: [evaluator.seconds(Layout(dp_shard=32, zero=zero, micro_batches=m), (32,)).dp for m in (2, 4, 8)]  # type: ignore[arg-type]
        for zero in (1, 2)
    }
    assert exposed[1][0] == pytest.approx(exposed[1][2])
    two, four, eight = exposed[2]
    assert eight - four == pytest.approx(2 * (four - two))
    assert four > 1.2 * two


def test_lora_is_faster_and_smaller_than_training_all_weights() -> None:
    layout = Layout(dp_shard=32, zero=3, micro_batches=8)
    full = evaluate(model(), layout)
    lora = evaluate(model(method="lora", lora_params=20_000_000), layout)
    assert lora.seconds.total < full.seconds.total
    assert lora.peak < full.peak


def test_offloading_the_optimizer_trades_memory_for_time() -> None:
    layout = Layout(dp_shard=32, zero=2, micro_batches=8)
    here = evaluate(model(stack="deepspeed", recipe="deepspeed"), layout)
    there = evaluate(model(stack="deepspeed", recipe="deepspeed", offload_optimizer="cpu"), layout)
    assert there.peak < here.peak
    assert there.seconds.optimizer > here.seconds.optimizer
    assert there.host_bytes > 0
