"""Memory: the formulas as printed in their papers, and how ZeRO cuts what a stack keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainwright.models.layout import Layout
from trainwright.planner.constants import constants_for
from trainwright.planner.memory import Memory, deepspeed_bytes, layer_activation_bytes
from trainwright.planner.remedies import lora_params
from trainwright.planner.workload import OPTIMIZER_BYTES, Workload, gpt

GPT_22B = gpt(6144, 48, 64, 51200, positions=2048, dropout=True)
S, B, H, A, T = 2048, 4, 6144, 64, 8
STACK = constants_for("a100", "nvswitch", "megatron_2022").stack


def _workload(recipe: str = "zero", **changes: object) -> Workload:
    base = Workload(GPT_22B, S, 64, precision="fp16", recipe=recipe, stack="megatron_2022")
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tp", "sequence_parallel", "recompute", "formula"),
    [
        (1, False, "none", S * B * H * (34 + 5 * A * S / H)),
        (T, False, "none", S * B * H * (10 + 24 / T + 5 * A * S / (H * T))),
        (T, True, "none", S * B * H / T * (34 + 5 * A * S / H)),
        (T, False, "selective", S * B * H * (10 + 24 / T)),
        (T, True, "selective", 34 * S * B * H / T),
        (T, False, "full", 2 * S * B * H),
    ],
    ids=["eq. 1", "eq. 2 tensor", "eq. 4 sequence", "selective", "eq. 6 selective + sequence", "full"],
)
def test_activations_of_a_layer_are_those_korthikanti_prints(
    tp: int, sequence_parallel: bool, recompute: str, formula: float
) -> None:
    held = layer_activation_bytes(
        _workload(), STACK, micro_batch_size=B, tp=tp, sequence_parallel=sequence_parallel, recompute=recompute
    )
    assert held == pytest.approx(formula)


@pytest.mark.parametrize("shards", [1, 2, 8, 64])
def test_zero_keeps_what_the_paper_says(shards: int) -> None:
    """Rajbhandari et al. 2020, §3: 16, 4 + 12/N, 2 + 14/N, 16/N bytes per parameter."""
    memory = Memory(_workload("zero"), STACK)
    params = 1e9
    for zero, per in ((0, 16), (1, 4 + 12 / shards), (2, 2 + 14 / shards), (3, 16 / shards)):
        layout = Layout(dp_shard=shards, zero=zero)  # type: ignore[arg-type]
        assert sum(memory.static(layout, params, 0.0)) == pytest.approx(per * params)


@pytest.mark.parametrize("shards", [1, 8])
def test_deepspeed_keeps_what_its_code_says_not_its_page(shards: int) -> None:
    memory = Memory(_workload("deepspeed"), STACK)
    params = 2.8e9
    for zero in (2, 3):
        layout = Layout(dp_shard=shards, zero=zero)  # type: ignore[arg-type]
        expected = deepspeed_bytes(params, 0.0, shards, zero)
        assert sum(memory.static(layout, params, 0.0)) == pytest.approx(expected)


def test_the_stale_example_of_deepspeeds_page_is_not_reproduced() -> None:
    """T5-3B on eight GPUs under ZeRO-2: the page says 15.93 GB (4P + 16P/N); the code gives about 11.3 GiB."""
    assert deepspeed_bytes(2.851e9, 0, 8, 2) / 2**30 == pytest.approx(11.3, abs=0.1)


def test_fsdp_shards_weights_at_every_stage_and_gathers_a_copy() -> None:
    memory = Memory(_workload("native", precision="bf16"), STACK)
    params = 1e9
    assert memory.static(Layout(dp_shard=4, zero=1), params, 0.0) == (1e9, 4e9, 0.0, 2e9)
    assert memory.static(Layout(dp_shard=4, zero=2), params, 0.0) == (1e9, 1e9, 0.0, 2e9)
    assert memory.communication(Layout(dp_shard=4, zero=2), params, (0.0, 0.0)) == 2e9
    assert memory.communication(Layout(dp_shard=4, zero=3), params, (0.0, 1e8)) == 10 * 1e8


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZER_BYTES))
def test_optimizer_state_follows_its_bytes_per_parameter(optimizer: str) -> None:
    memory = Memory(_workload(optimizer=optimizer), STACK)
    assert memory.static(Layout(), 1e9, 0.0)[3] == pytest.approx(1e9 * OPTIMIZER_BYTES[optimizer])


def test_offloaded_optimizer_state_moves_to_the_host() -> None:
    memory = Memory(_workload("deepspeed", offload_optimizer="cpu"), STACK)
    layout = Layout(dp_shard=8, zero=2)
    assert memory.static(layout, 1e9, 0.0)[2:] == (0.0, 0.0)
    assert memory.host_bytes(layout, 1e9, 0.0) == pytest.approx(1.5 * 16 * 1e9 / 8)  # stage3.py, stage_1_and_2.py
    both = Memory(_workload("deepspeed", offload_optimizer="cpu", offload_parameters="cpu"), STACK)
    assert both.host_bytes(Layout(dp_shard=8, zero=3), 1e9, 0.0) == pytest.approx(1.5 * 18 * 1e9 / 8)


def test_torch_offloads_the_fp32_weights_with_the_optimizer() -> None:
    memory = Memory(_workload("native", offload_optimizer="cpu"), STACK)
    layout = Layout(dp_shard=8, zero=3)
    assert memory.static(layout, 1e9, 0.0) == (0.0, 0.0, 0.0, 0.0)
    assert memory.host_bytes(layout, 1e9, 0.0) == pytest.approx((4 + 4 + 8) * 1e9 / 8)
    # zero 1 keeps whole gradients where they are computed, until they are reduced
    assert memory.static(Layout(dp_shard=8, zero=1), 1e9, 0.0) == (0.0, 4e9, 0.0, 0.0)


def test_lora_trains_only_adapters_and_qlora_shrinks_the_base() -> None:
    layout = Layout()
    lora = Memory(_workload("native", precision="bf16", method="lora", lora_params=20_000_000), STACK)
    weights, gradients, _, optimizer = lora.static(layout, float(GPT_22B.params), 0.0)
    assert gradients == pytest.approx(4 * 2e7)
    assert optimizer == pytest.approx(8 * 2e7)
    assert weights == pytest.approx(2 * GPT_22B.params + 4 * 2e7)
    qlora = Memory(_workload("native", precision="bf16", method="qlora", lora_params=20_000_000), STACK)
    assert qlora.static(layout, float(GPT_22B.params), 0.0)[0] < 0.3 * weights


def test_adapters_are_counted_as_peft_prints_them() -> None:
    """ "trainable params: 41,943,040" for Llama 3 8B, rank 16, all linear layers; NeMo fuses q, k, v and gate, up."""
    llama = gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False)
    workload = _workload("native", stack="native", method="lora", dims=llama)
    assert lora_params(workload) == 41_943_040
    assert lora_params(replace(workload, stack="nemo")) == 41_943_040 - 32 * 16 * 3 * 4096


def test_qlora_leaves_embedding_and_head_in_16_bits() -> None:
    """bitsandbytes replaces the linear layers of blocks: a 4-bit Llama 3 8B is 5.7 GB on disk, not 4.1."""
    llama = gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False)
    workload = _workload("native", precision="bf16", method="qlora", dims=llama)
    held = Memory(workload, STACK).rank(Layout(), 0, 32).weights
    assert held == pytest.approx(5.7e9, rel=0.04)
    halves = Memory(workload, STACK).rank(Layout(dp_shard=2, zero=3), 0, 32).weights
    assert halves == pytest.approx(held / 2)


def test_a_frozen_head_has_no_gradient_in_the_chunked_loss() -> None:
    stack = constants_for("h100", "nvswitch", "native").stack
    whole = Memory(_workload("native", precision="bf16"), stack)
    adapters = Memory(_workload("native", precision="bf16", method="lora", lora_params=10**7), stack)
    full, lora = (memory.rank(Layout(micro_batch_size=4), 0, 48).logits for memory in (whole, adapters))
    assert full - lora == 4 * 51200 * 6144


def test_experts_are_cut_by_ep_and_shards_only_once() -> None:
    moe = gpt(1024, 8, 16, 32000, experts=8, top_k=2, gated=True)
    memory = Memory(Workload(moe, 1024, 64, recipe="zero", stack="megatron"), STACK)
    whole = Layout(dp_shard=8, zero=3)
    cut = Layout(dp_shard=8, zero=3, ep=8)
    for layout in (whole, cut):
        dense, experts, _ = memory.stage_params(layout, 8, True, True)
        assert sum(memory.static(layout, dense, experts)) == pytest.approx(16 * moe.params / 8)


def test_first_stage_holds_as_many_layers_as_the_whole_model() -> None:
    """Korthikanti et al. 2022, §4.2.3: multiply by L, not by L/p; interleaved by 1 + (p − 1)/(pm) more."""
    workload = replace(_workload(), dims=gpt(6144, 48, 64, 51200, positions=2048, dropout=True))
    memory = Memory(workload, replace(STACK, workspace_bytes=0))
    layer = layer_activation_bytes(workload, STACK, micro_batch_size=1)
    plain = Layout(pp=8, micro_batches=64)
    other = 2 * S * H * 8 + 2 * S * (2 * H + 4 * H)  # embedding outputs in flight, gradients on the way back
    assert memory.dynamic(plain, 0, 6)[0] == pytest.approx(48 * layer + other)
    interleaved = Layout(pp=8, micro_batches=64, schedule="interleaved")
    extra = 48 * layer * (1 + 7 / (8 * 3))
    assert memory.dynamic(interleaved, 0, 6, 3)[0] == pytest.approx(extra + other + 2 * S * H * 7 / 3)


def test_published_static_bytes_are_met_within_one_percent() -> None:
    """NeMo logs 44,271,689,728 bytes for Llama 3.1 8B on eight GPUs and 34,466,545,664 for Nemotron-4 15B on 64."""
    llama = gpt(4096, 32, 32, 128256, kv_heads=8, ffn=14336, gated=True, tied=False, bias=False)
    nemotron = gpt(6144, 32, 48, 256000, kv_heads=8, ffn=24576, tied=False, bias=False)
    for dims, layout, published in (
        (llama, Layout(dp_shard=4, cp=2, zero=1), 44_271_689_728),
        (nemotron, Layout(dp_shard=32, tp=2, zero=1), 34_466_545_664),
    ):
        memory = Memory(Workload(dims, 8192, 64, recipe="nemo", stack="nemo"), STACK)
        dense, experts, _ = memory.stage_params(layout, dims.layers, True, True)
        assert sum(memory.static(layout, dense, experts)) == pytest.approx(published, rel=0.01)
