"""Two naive predictors of step time that the planner has to beat.

``constant_hfu``: every layout reaches one hardware FLOPs utilisation. ``alpha_beta``: an efficiency and three
bandwidths, the four-parameter fit on vTrain's multi-node rows. Both are given what the planner is given.
"""

from __future__ import annotations

from planner_cases import Case

from trainwright.planner.evaluate import model_flops_per_token

#: Hardware FLOPs utilisation that fits vTrain's 18.4B and 175B rows best (median).
HFU = 0.395
#: Compute efficiency; bytes/s of tensor parallelism inside and between nodes, and of gradient reduction.
EFFICIENCY, INTRA, INTER, DATA = 0.69, 120e9, 40e9, 5e9


def hardware_flops(case: Case) -> float:
    """FLOPs of one step, recomputation included, attention counted in full (as SC21 counts)."""
    w = case.workload
    model = model_flops_per_token(w.dims, w.sequence_length) * w.tokens_per_step
    if w.method != "full":
        model *= 2 / 3  # no weight gradients of the frozen matrices
    return model * (4 / 3 if case.layout.recompute == "full" else 1.0)


def constant_hfu(case: Case) -> float:
    """Seconds at one utilisation for all."""
    peak = case.machine.flops(case.workload.precision) * case.layout.world_size
    return hardware_flops(case) / (peak * HFU)


def alpha_beta(case: Case) -> float:
    """Compute with its pipeline bubble, all-reduces of tensor parallelism, one gradient reduction."""
    w, layout = case.workload, case.layout
    peak = case.machine.flops(w.precision) * layout.world_size
    chunks = max(1, len(case.stages) // layout.pp)
    bubble = 1 + (layout.pp - 1) / (layout.micro_batches * chunks)
    compute = hardware_flops(case) / (peak * EFFICIENCY) * bubble
    tensor = 0.0
    if layout.tp > 1:
        size = 2.0 * layout.micro_batch_size * w.sequence_length / layout.cp * w.dims.hidden
        bandwidth = INTRA if layout.tp <= case.machine.per_node else INTER
        calls = (6 if layout.recompute == "full" else 4) * w.dims.layers / layout.pp * layout.micro_batches
        tensor = calls * 2 * (layout.tp - 1) / layout.tp * size / bandwidth * bubble
    data = 0.0
    ranks = layout.data_parallel * layout.cp
    if ranks > 1:
        data = 2 * (ranks - 1) / ranks * 2.0 * w.trained_params / (layout.tp * layout.pp) / DATA
    return compute + tensor + data
