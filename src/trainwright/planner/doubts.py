"""Where a prediction lies beyond what was measured, and how much slower its pessimistic edge is for that.

Takes a workload, a machine and a cut; gives sentences and a factor. What is beyond the calibrated range whatever the
layout (accelerator, experts, size) widens the error bar; what only some layouts use (context parallelism, schedules)
also makes the search rank them by the far edge of their bar. Must not search.
"""

from __future__ import annotations

from math import sqrt

from trainwright.planner.constants import Constants, accelerator_family
from trainwright.planner.memory import Cut
from trainwright.planner.workload import Machine, Workload

#: The rows of two context ranks that were calibrated on have sequences of 8,192 tokens (dgxc-benchmarking).
CALIBRATED_CP, CALIBRATED_CP_TOKENS = 2, 8192
#: Accelerators of the largest run that was checked (SC21, table 1).
CALIBRATED_WORLD = 3072
#: Ranks of the widest sharding that was calibrated on (llm-foundry). DeepSpeed's of 2021 over 384 to 2,240 ranks took
#: 1.7 to 4.6 times what is predicted here (SC21, table 2).
CALIBRATED_SHARDS = 128
#: The accelerator that each measured stack was measured on: neither half of a pair that nobody ran says it is right.
MEASURED_ON = {
    "fsdp": "a100", "megatron_2021": "a100", "megatron_2022": "a100", "megatron_unfused": "a100",
    "megatron": "h100", "nemo": "h100",
}  # fmt: skip


def common_doubts(workload: Workload, machine: Machine, constants: Constants) -> list[str]:
    """What no layout of this question can avoid."""
    found = []
    family = accelerator_family(machine.accelerator)
    if not constants.calibrated:
        found.append(f"{machine.accelerator} was not calibrated ({constants.source})")
    elif MEASURED_ON.get(workload.stack, family) != family:
        found.append(f"no run of the {workload.stack} stack on {machine.accelerator} was calibrated on")
    if workload.dims.experts:
        found.append("no mixture-of-experts run was calibrated on")
    if {workload.offload_optimizer, workload.offload_parameters} != {"none"}:
        found.append("no run that offloads was calibrated on")
    if workload.method == "qlora":
        found.append("no run on 4-bit weights was calibrated on")
    if machine.world_size > CALIBRATED_WORLD:
        found.append(f"{machine.world_size} accelerators are more than the {CALIBRATED_WORLD:,} checked")
    return found


def layout_doubts(workload: Workload, constants: Constants, cut: Cut) -> list[str]:
    """What this layout uses that was not calibrated on, a sentence each."""
    found = []
    for name, degree in (("tp", cut.tp), ("pp", cut.pp), ("cp", cut.cp)):
        if degree > 1 and name not in constants.measured_cuts:
            found.append(f"no run of the {workload.stack} stack with {name} was measured")
    if "cp" in constants.measured_cuts:
        if cut.cp > CALIBRATED_CP:
            found.append("context parallelism beyond 2 was not calibrated")
        elif cut.cp > 1 and workload.sequence_length < CALIBRATED_CP_TOKENS:
            found.append(f"context parallelism of sequences below {CALIBRATED_CP_TOKENS:,} tokens was not calibrated")
    if cut.pp > 1 and cut.schedule == "zero_bubble":
        found.append("no zero-bubble run was calibrated on")
    if cut.zero == 3 and cut.dp_shard * cut.cp > CALIBRATED_SHARDS:
        found.append(f"no run that shards parameters over more than {CALIBRATED_SHARDS} ranks was calibrated on")
    return found


def pessimism(workload: Workload, constants: Constants, cut: Cut) -> float:
    """How much later the far edge of this layout's error bar lies than that of a calibrated layout equally fast."""
    if cut.cp == cut.tp == cut.pp == 1 and cut.dp_shard <= CALIBRATED_SHARDS:
        return 1.0
    doubts = len(layout_doubts(workload, constants, cut))
    return (100.0 + _widened(constants, doubts)) / (100.0 + constants.error_time_pct)


def time_error_pct(workload: Workload, machine: Machine, constants: Constants, cut: Cut) -> float:
    """The error bar of a plan's time, ± percent. That of an accelerator that nobody calibrated is wide already."""
    common = len(common_doubts(workload, machine, constants)) - (not constants.calibrated)
    return round(_widened(constants, common + len(layout_doubts(workload, constants, cut))), 1)


def _widened(constants: Constants, doubts: int) -> float:
    """The bar with so many doubts, in percent.

    The first widens it to what was measured outside the calibrated range; doubts are independent, so that their
    widenings add in quadrature.
    """
    return constants.error_time_pct + sqrt(doubts) * constants.doubt_time_pct
