"""Fits the planner's physical constants to measured cases, by coordinate descent on the logarithm of the error.

Used to produce ``planner/constants.json`` and, with cases left out, to show what the constants predict on rows that
they never saw. Bounds keep every constant physical: an efficiency stays a fraction, a latency positive.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from planner_cases import Case

from trainwright.planner.constants import accelerator_family, constants_for
from trainwright.planner.step import StepModel

#: {(table, row): {constant: value}} on top of constants.json.
Values = dict[tuple[str, str], dict[str, float]]


@dataclass(frozen=True)
class Free:
    """One constant that a fit may move, and its physical range."""

    table: str
    row: str
    name: str
    low: float
    high: float


#: Ranges are what is physically known beforehand, not what the rows ask for: cuBLAS sustains 250-280 of A100's 312
#: TFLOP/s on large matrices and streaming kernels 1.67-1.88 of its 2.04 TB/s; a kernel starts in microseconds.
#: Links are not fitted: they come from published nccl-tests curves.
A100 = (
    Free("chip", "a100", "gemm_efficiency", 0.80, 0.90),
    Free("chip", "a100", "gemm_traffic", 0.0, 1.0),
    Free("chip", "a100", "gemm_seconds", 2e-6, 1e-5),
    Free("chip", "a100", "memory_efficiency", 0.82, 0.92),
    Free("chip", "a100", "kernel_seconds", 2e-6, 8e-6),
)
#: Host times: about twenty launches a layer and pass through Python modules, 20-100 us each. Bytes per score are not
#: fitted: in these rows heads x sequence / hidden is always 16, so that no fit could tell them from hidden traffic.
MEGATRON_2021 = (
    Free("stack", "megatron_2021", "hidden_traffic", 18, 30),
    Free("stack", "megatron_2021", "logit_traffic", 20, 60),
    Free("stack", "megatron_2021", "logit_traffic_whole", 60, 120),
    Free("stack", "megatron_2021", "kernels_forward", 10, 40),
    Free("stack", "megatron_2021", "kernels_backward", 15, 60),
    Free("stack", "megatron_2021", "layer_forward_seconds", 4e-4, 2e-3),
    Free("stack", "megatron_2021", "layer_backward_seconds", 4e-4, 2e-3),
    Free("stack", "megatron_2021", "collective_seconds", 1e-5, 1e-4),
    Free("stack", "megatron_2021", "micro_batch_seconds", 5e-4, 5e-3),
    Free("stack", "megatron_2021", "step_seconds", 1e-3, 5e-3),
    Free("stack", "megatron_2021", "tp_overlap_backward", 0.0, 0.9),
)
FSDP = (
    Free("stack", "fsdp", "attention_scale", 0.3, 1.0),
    Free("stack", "fsdp", "hidden_traffic", 14, 40),
    Free("stack", "fsdp", "ffn_traffic", 3, 12),
    Free("stack", "fsdp", "logit_traffic_whole", 24, 120),
    Free("stack", "fsdp", "overlap_slowdown", 0.0, 0.25),
    Free("stack", "fsdp", "overlap_window", 0.3, 1.0),
)
H100 = (
    Free("chip", "h100", "gemm_efficiency", 0.55, 0.9),
    Free("chip", "h100", "gemm_efficiency_fp8", 0.4, 0.85),
    Free("chip", "h100", "attention_forward", 0.35, 0.75),
    Free("stack", "megatron", "tp_overlap_forward", 0.0, 0.9),
)

ALL = (*A100, *MEGATRON_2021, *FSDP, *H100)

_PARENTS = {"nemo": "megatron", "nanotron": "fsdp", "megatron_unfused": "megatron"}


def sees(one: Free, cases: Iterable[Case]) -> bool:
    """Whether any of the cases depends on a constant."""
    return any(one.row in _rows(one.table, case) for case in cases)


def _rows(table: str, case: Case) -> tuple[str, ...]:
    family, stack = accelerator_family(case.machine.accelerator), case.workload.stack
    if table == "stack":
        return stack, _PARENTS.get(stack, "")
    return (family,) if table == "chip" else (f"{family}/{case.machine.fabric}",)


def thinned(cases: list[Case], most: int = 80) -> list[Case]:
    """Every n-th case of each file, so that a fit takes seconds."""
    by_file: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_file[case.file].append(case)
    return [case for rows in by_file.values() for case in rows[:: max(1, len(rows) // most)]]


def neutral() -> Values:
    """The middle of every range: where a fit starts that must not know the shipped values."""
    values: Values = {}
    for one in ALL:
        geometric = math.sqrt(one.low * one.high) if one.low > 0 else (one.low + one.high) / 2
        values.setdefault((one.table, one.row), {})[one.name] = geometric
    return values


def overlay_of(case: Case, values: Values) -> Mapping[str, Mapping[str, float]]:
    """The part of ``values`` that one case sees."""
    family = accelerator_family(case.machine.accelerator)
    stack = case.workload.stack
    return {
        "chip": values.get(("chip", family), {}),
        "network": values.get(("network", f"{family}/{case.machine.fabric}"), {}),
        "stack": {
            **values.get(("stack", _PARENTS.get(stack, "")), {}),
            **values.get(("stack", stack), {}),
        },
    }


def predict_seconds(case: Case, values: Values) -> float:
    """Seconds of one step with the given constants."""
    machine, workload = case.machine, case.workload
    constants = constants_for(machine.accelerator, machine.fabric, workload.stack, overlay_of(case, values))
    return StepModel(workload, machine, constants).seconds(case.layout, case.stages).total


def loss(cases: Iterable[Case], values: Values) -> float:
    """Mean over files of the mean |ln(predicted / measured)|, rounded near zero so that it can be descended."""
    by_file: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        if case.seconds:
            error = math.log(predict_seconds(case, values) / case.seconds)
            by_file[case.file].append(math.sqrt(error * error + 1e-4))
    return sum(sum(errors) / len(errors) for errors in by_file.values()) / max(1, len(by_file))


def fit(cases: list[Case], free: Iterable[Free], start: Values, sweeps: int = 6) -> Values:
    """Move each constant by shrinking factors while that lowers the loss."""
    values = {key: dict(row) for key, row in start.items()}
    free = tuple(free)
    step = dict.fromkeys(free, 0.25)
    best = loss(cases, values)
    for _ in range(sweeps):
        for one in free:
            row = values.setdefault((one.table, one.row), {})
            old = row.get(one.name)
            base = old if old is not None else _shipped(one, cases)
            span = max(abs(base), (one.high - one.low) * 0.05)
            improved = False
            for direction in (1, -1):
                trial = min(one.high, max(one.low, base + direction * step[one] * span))
                if trial == base:
                    continue
                row[one.name] = trial
                found = loss(cases, values)
                if found < best - 1e-6:
                    best, improved = found, True
                    break
            if not improved:
                step[one] /= 2
                if old is None:
                    row.pop(one.name, None)
                else:
                    row[one.name] = old
    return values


def _shipped(one: Free, cases: list[Case]) -> float:
    """The value in constants.json of the constant that a fit starts from."""
    for case in cases:
        if one.row in _rows(one.table, case):
            constants = constants_for(case.machine.accelerator, case.machine.fabric, case.workload.stack)
            return float(getattr(getattr(constants, one.table), one.name))
    raise ValueError(f"no case sees {one.table} {one.row}")
