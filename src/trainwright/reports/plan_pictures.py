"""A plan as pictures: memory of each rank class, the pipeline's timeline, cost against time; SVG text to inline.

Takes plain ``Plan`` values; matplotlib is imported when a picture is drawn and is an optional extra.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from trainwright.errors import MissingExtra
from trainwright.planner.offers import Offer, front
from trainwright.planner.plan import Plan

GIB = 2**30
_KINDS = ("weights", "gradients", "master", "optimizer", "activations", "logits", "communication", "reserve")
#: A palette that stays apart for colour-blind readers (Okabe and Ito 2008).
_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#F0E442", "#E69F00", "#D55E00", "#CC79A7", "#999999")


def memory_bars(plan: Plan) -> str:
    """Stacked bytes by kind of every pipeline stage, against what the accelerator holds."""
    figure, axes = _figure(7.5, 3.2)
    labels = [f"stage {rank.pp_stage}" for rank in plan.ranks]
    bottom = [0.0] * len(labels)
    for kind, colour in zip(_KINDS, _COLOURS, strict=True):
        values = [getattr(rank.bytes, kind) / GIB for rank in plan.ranks]
        if any(values):
            axes.bar(range(len(labels)), values, bottom=bottom, color=colour, label=kind, width=0.7)
            bottom = [b + v for b, v in zip(bottom, values, strict=True)]
    if capacity := plan.extra.get("capacity_bytes"):
        axes.axhline(capacity / GIB, color="black", linestyle="--", linewidth=1)
        axes.text(0.005, capacity / GIB, " usable", va="bottom", fontsize=8, transform=axes.get_yaxis_transform())
    step = max(1, len(labels) // 16)
    axes.set_xticks(range(0, len(labels), step), labels[::step], fontsize=8)
    axes.set_ylabel("GiB per rank")
    axes.set_title("Memory at the peak of a step", fontsize=10, loc="left")
    axes.legend(fontsize=7, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.12), frameon=False)
    return _svg(figure)


def timeline(plan: Plan, most_micro_batches: int = 12, most_stages: int = 8) -> str:
    """The pipeline schedule of one step, to scale of forward and backward; without a pipeline, one bar by part."""
    if plan.layout.pp == 1 or plan.step_seconds is None:
        return _parts(plan)
    figure, axes = _figure(7.5, 3.0)
    stages = min(plan.layout.pp, most_stages)
    count = min(plan.layout.micro_batches, most_micro_batches)
    for start, length, stage, micro_batch, kind in slots(stages, count, plan.layout.schedule):
        colour = {"forward": _COLOURS[1], "backward": _COLOURS[2], "weights": _COLOURS[3]}[kind]
        axes.barh(stages - 1 - stage, length, left=start, height=0.85, color=colour, edgecolor="white", linewidth=0.5)
        if count <= 12:
            axes.text(
                start + length / 2, stages - 1 - stage, str(micro_batch + 1), ha="center", va="center", fontsize=6
            )
    axes.set_yticks(range(stages), [f"stage {stages - 1 - s}" for s in range(stages)], fontsize=8)
    axes.set_xlabel("time, in forward passes of one stage")
    shown = (
        ""
        if (stages, count) == (plan.layout.pp, plan.layout.micro_batches)
        else (
            f" (first {stages} stages and {count} micro-batches of {plan.layout.pp} and {plan.layout.micro_batches})"
        )
    )
    axes.set_title(f"Schedule {plan.layout.schedule}{shown}", fontsize=10, loc="left")
    return _svg(figure)


def cost_front(found: Sequence[Offer]) -> str:
    """Cost against time of every offer with a price; the front that no other beats is joined."""
    priced = [o for o in found if o.cost is not None and o.hours]
    figure, axes = _figure(6.5, 3.6)
    for i, name in enumerate(sorted({o.machine for o in priced})):
        mine = [o for o in priced if o.machine == name]
        axes.scatter([o.hours for o in mine], [o.cost for o in mine], s=24, color=_COLOURS[i % 8], label=name)
        for o in mine:
            axes.annotate(str(o.nodes), (o.hours, o.cost), fontsize=6, xytext=(3, 3), textcoords="offset points")
    edge = front(priced)
    axes.plot([o.hours for o in edge], [o.cost for o in edge], color="black", linewidth=0.8, linestyle=":")
    if priced:
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.legend(fontsize=7, frameon=False)
    axes.set_xlabel("hours")
    axes.set_ylabel("US dollars")
    axes.set_title("Cost against time (numbers: nodes)", fontsize=10, loc="left")
    return _svg(figure)


def slots(stages: int, micro_batches: int, schedule: str) -> list[tuple[float, float, int, int, str]]:
    """(start, length, stage, micro-batch, kind) of every block: forward takes 1, backward 2 (1 + 1 with zero bubble).

    Built by running the schedule: a stage takes the next block of its order as soon as what it needs is there.
    """
    orders = [_order(schedule, stages, stage, micro_batches) for stage in range(stages)]
    split = schedule == "zero_bubble"
    lengths = {"forward": 1.0, "backward": 1.0 if split else 2.0, "weights": 1.0}
    done: dict[tuple[int, int, str], float] = {}
    free = [0.0] * stages
    at = [0] * stages
    drawn: list[tuple[float, float, int, int, str]] = []
    while any(at[s] < len(orders[s]) for s in range(stages)):
        moved = False
        for s in range(stages):
            while at[s] < len(orders[s]):
                micro_batch, kind = orders[s][at[s]]
                need = _needs(s, micro_batch, kind, stages)
                if need is not None and need not in done:
                    break
                start = max(free[s], done[need] if need else 0.0)
                free[s] = done[s, micro_batch, kind] = start + lengths[kind]
                drawn.append((start, lengths[kind], s, micro_batch, kind))
                at[s] += 1
                moved = True
        if not moved:
            raise ValueError(f"{schedule} waits for itself")
    return drawn


def _order(schedule: str, stages: int, stage: int, micro_batches: int) -> list[tuple[int, str]]:
    """What one stage does, in order."""
    if schedule == "gpipe":
        return [(i, "forward") for i in range(micro_batches)] + [(i, "backward") for i in range(micro_batches)]
    warm_up = min(micro_batches, stages - stage)
    order: list[tuple[int, str]] = [(i, "forward") for i in range(warm_up)]
    waiting: list[int] = []
    for i in range(micro_batches):
        order.append((i, "backward"))
        waiting.append(i)
        if warm_up + i < micro_batches:
            order.append((warm_up + i, "forward"))
        # Weight gradients fill the gaps: a stage keeps as many back as stages lie before it.
        if schedule == "zero_bubble" and len(waiting) > stage:
            order.append((waiting.pop(0), "weights"))
    return order + [(i, "weights") for i in waiting if schedule == "zero_bubble"]


def _needs(stage: int, micro_batch: int, kind: str, stages: int) -> tuple[int, int, str] | None:
    if kind == "weights":
        return stage, micro_batch, "backward"
    if kind == "forward":
        return (stage - 1, micro_batch, "forward") if stage else None
    return (stage + 1, micro_batch, "backward") if stage < stages - 1 else (stage, micro_batch, "forward")


def _parts(plan: Plan) -> str:
    figure, axes = _figure(7.5, 1.8)
    left = 0.0
    parts = vars(plan.step_seconds) if plan.step_seconds else {}
    shown = [(name, value) for name, value in parts.items() if value > 0]
    for i, (name, value) in enumerate(shown):
        axes.barh(0, value, left=left, color=_COLOURS[i % 8], label=name, height=0.6)
        left += value
    axes.set_yticks([])
    axes.set_xlabel("seconds of one step")
    axes.set_title("Where a step's time goes", fontsize=10, loc="left")
    axes.legend(fontsize=7, ncols=5, loc="upper center", bbox_to_anchor=(0.5, -0.45), frameon=False)
    return _svg(figure)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("a picture of the plan", "report") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _svg(figure: Any) -> str:
    """SVG without the XML prologue, the same bytes for the same plan."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "trainwright", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"^.*?(?=<svg)", "", text, count=1, flags=re.DOTALL)
