"""The physical constants of the planner: what an accelerator, a network and a training stack really sustain.

Values live in ``constants.json`` with their source; this module reads them into frozen dataclasses and overlays a
user's own calibration file. It must not know models or layouts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from trainwright.errors import InputError, Problem, did_you_mean


@dataclass(frozen=True)
class ChipConstants:
    """What one accelerator sustains. Fractions of nominal peak, seconds."""

    gemm_efficiency: float
    #: The same for 8-bit matrix multiplications.
    gemm_efficiency_fp8: float
    #: Share of a matrix multiplication's memory traffic that its compute does not hide.
    gemm_traffic: float
    #: Start and drain of one matrix multiplication.
    gemm_seconds: float
    #: Fused attention kernels, forward and backward, fraction of peak at head size 128.
    attention_forward: float
    attention_backward: float
    memory_efficiency: float
    #: Time of one memory-bound kernel that is not its traffic.
    kernel_seconds: float


@dataclass(frozen=True)
class NetworkConstants:
    """Efficiency (of the nominal bandwidth), latency in seconds and ramp in bytes of both kinds of link."""

    intra_efficiency: float
    intra_alpha: float
    intra_ramp: float
    inter_efficiency: float
    inter_alpha: float
    inter_ramp: float


@dataclass(frozen=True)
class StackConstants:
    """What a training framework adds to the physics: fusion, overlap, launch overhead, bytes kept.

    Byte counts are per element of the tensor named; overlaps are fractions in 0–1.
    """

    #: Fused (flash) attention: no s² tensor is written.
    flash: bool
    #: Bytes moved per attention score when not fused, forward and backward.
    score_forward: float
    score_backward: float
    #: Fused attention's speed against the chip's best known kernel.
    attention_scale: float
    #: Memory-bound kernels of one layer, forward and backward: each costs its start beside its traffic.
    kernels_forward: float
    kernels_backward: float
    #: Bytes moved per hidden element of a layer (norms, residuals, dropouts) in the forward pass.
    hidden_traffic: float
    #: Bytes moved per MLP element (activation, bias, gating) in the forward pass.
    ffn_traffic: float
    #: Bytes moved per logit, all passes of the loss forward and backward.
    logit_traffic: float
    #: The same where one rank holds the whole vocabulary.
    logit_traffic_whole: float
    #: Bytes kept per logit at the peak of the loss.
    logit_bytes: float
    #: Bytes of logits that exist at a time where the loss works in chunks (0: all of a micro-batch's).
    logit_chunk_bytes: float
    #: Host seconds to launch one layer, forward and backward; a collective.
    layer_forward_seconds: float
    layer_backward_seconds: float
    collective_seconds: float
    #: Host seconds outside the layers, per micro-batch and per step.
    micro_batch_seconds: float
    #: The host waits for the device in every micro-batch (timers that synchronise): it cannot run ahead.
    host_waits: bool
    step_seconds: float
    #: Share of tensor-parallel collectives hidden, forward and backward.
    tp_overlap_forward: float
    tp_overlap_backward: float
    #: Linear layers of a block that get an adapter under LoRA on all of them (q, k, v and gate, up fused or not).
    adapter_linears: int
    #: Gradient reduction and parameter gathering run during compute.
    dp_overlap: bool
    #: Parameters updated in shards are gathered beside the next forward pass, not at the end of the update.
    gather_overlap: bool
    #: Share of the compute window that overlapped collectives may really use.
    overlap_window: float
    #: Slow-down of compute while a collective runs beside it.
    overlap_slowdown: float
    #: Pipeline sends hidden behind compute.
    p2p_overlap: float
    #: Sends carry one tensor-parallel part and are gathered on arrival (Narayanan et al. 2021, §4.1).
    p2p_scatter: bool
    #: Bytes kept per token and hidden element, (not cut by tp unless sequence parallel).
    activation_hidden: float
    #: Bytes kept per token and MLP element.
    activation_ffn: float
    #: Bytes kept per token and element of q, k, v and the attention output.
    activation_attention: float
    #: Bytes kept per attention score when attention is not fused.
    activation_score: float
    #: Library workspaces that the framework's allocator holds, bytes.
    workspace_bytes: float
    #: Bytes outside the allocator (context, communicators), and fragmentation as a share of dynamic memory.
    reserve_bytes: float
    fragmentation: float


@dataclass(frozen=True)
class Constants:
    """Everything the formulas read besides the workload, the machine and the layout."""

    chip: ChipConstants
    network: NetworkConstants
    stack: StackConstants
    #: Whether this accelerator was calibrated on published measurements, and the measured errors in percent.
    calibrated: bool
    error_time_pct: float
    error_memory_pct: float
    #: That of memory outside the calibrated range.
    error_outside_memory_pct: float
    #: What one more thing that was not measured adds to the bar of time; an accelerator's own doubt hides none.
    doubt_time_pct: float
    source: str
    #: Dimensions besides data parallelism that runs of this stack were measured with.
    measured_cuts: tuple[str, ...] = ("tp", "pp")


T = TypeVar("T")

#: Constants that are a share of a nominal figure: something is divided by them.
_SHARES = frozenset(
    {
        "gemm_efficiency",
        "gemm_efficiency_fp8",
        "attention_forward",
        "attention_backward",
        "memory_efficiency",
        "intra_efficiency",
        "inter_efficiency",
    }
)

_PATH = Path(__file__).with_name("constants.json")


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_PATH.read_text())
    return table


def constants_date() -> str:
    """Date of the calibration that ships with this version."""
    return str(_table()["date"])


def stacks() -> tuple[str, ...]:
    """Names of the training stacks that have constants."""
    return tuple(_table()["stacks"])


def constants_for(
    accelerator: str, fabric: str, stack: str, overlay: Mapping[str, Mapping[str, float]] | None = None
) -> Constants:
    """Constants of one accelerator under one stack; an unknown accelerator gets the generic ones, uncalibrated.

    ``overlay`` ({"chip"|"network"|"stack": {name: value}}) replaces single values: a user's own calibration.
    """
    table = _table()
    family = accelerator_family(accelerator)
    chip = table["chips"].get(family)
    network = table["networks"].get(f"{family}/{fabric}") or table["networks"].get(fabric)
    stack_row = table["stacks"].get(stack)
    if stack_row is None:
        raise InputError(
            [
                Problem(
                    "stack",
                    what=f"{stack!r} is not known",
                    instead=did_you_mean(stack, stacks()),
                )
            ]
        )
    calibrated = chip is not None and bool(chip.get("calibrated", True))
    chip = chip or table["chips"]["generic"]
    network = network or table["networks"]["nvswitch"]
    errors = table["errors"]["calibrated" if calibrated else "uncalibrated"]
    outside = table["errors"]["uncalibrated"]
    merged = _inherited(table["stacks"], stack)
    error_stack = max(float(table["errors"]["calibrated"]["time"]), float(merged["error_time_pct"]))
    error_time = max(float(errors["time"]), error_stack)
    overlay = overlay or {}
    return Constants(
        chip=_read(ChipConstants, chip, overlay.get("chip")),
        network=_read(NetworkConstants, network, overlay.get("network")),
        stack=_read(StackConstants, merged, overlay.get("stack")),
        calibrated=calibrated,
        error_time_pct=error_time,
        error_memory_pct=float(errors["memory"]),
        error_outside_memory_pct=float(outside["memory"]),
        doubt_time_pct=max(0.0, float(outside["time"]) - error_stack),
        source=str(chip["source"]),
        measured_cuts=tuple(merged["measured_cuts"]),
    )


def accelerator_family(name: str) -> str:
    """Key of the constants table for an accelerator's name: a100, h100 … (the memory size does not matter)."""
    name = name.lower().replace("-", " ").replace("_", " ")
    aliases = {"h200": "h100", "h800": "h100", "a800": "a100"}
    for word in name.split():
        if word in _table()["chips"]:
            return word
        if word in aliases:
            return aliases[word]
    return name


def _inherited(stacks_: dict[str, Any], name: str) -> dict[str, Any]:
    row = stacks_[name]
    parent = row.get("like")
    return {**_inherited(stacks_, parent), **row} if parent else row


def _read(cls: type[T], row: Mapping[str, Any], overlay: Mapping[str, float] | None) -> T:
    names = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    value = cls(**{key: row[key] for key in names})
    if not overlay:
        return value
    problems = []
    for name, number in overlay.items():
        if name not in names:
            problems.append(
                Problem("calibration", field=name, what="is no constant", instead=did_you_mean(name, names))
            )
        elif name in _SHARES and not 0 < number <= 1:
            problems.append(
                Problem("calibration", field=name, what=f"is {number}", instead="a share above 0, at most 1")
            )
        elif not 0 <= number < float("inf"):
            problems.append(Problem("calibration", field=name, what=f"is {number}", instead="a number of at least 0"))
    if problems:
        raise InputError(problems)
    return replace(value, **overlay)  # type: ignore[type-var]
