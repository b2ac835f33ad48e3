"""From a question to a ``Plan``: check, search, explain, price.

``Question`` is all that decides a plan, as plain values; ``answer`` is pure. A workload that fits nowhere raises
``DoesNotFit``, which carries the closest plan and the smallest changes that would help.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.models.layout import Layout
from trainwright.planner.constants import Constants, constants_for
from trainwright.planner.doubts import time_error_pct
from trainwright.planner.evaluate import Evaluated, chunks_of, evaluate
from trainwright.planner.goodput import FAILURES_PER_NODE_HOUR, RESTART_SECONDS, goodput
from trainwright.planner.legality import forced_troubles, layout_troubles, machine_troubles, workload_troubles
from trainwright.planner.plan import Plan, RankClass, Reason
from trainwright.planner.remedies import Remedy, remedies
from trainwright.planner.search import Found, Objective, Space, search
from trainwright.planner.step import StepModel
from trainwright.planner.why import is_outside, not_run, reasons, rules_of_thumb, strategies
from trainwright.planner.workload import OPTIMIZER_BYTES, Machine, Workload

GIB = 2**30
#: Bytes/s at which one rank writes its checkpoint part to shared storage, where nothing better is known.
CHECKPOINT_BANDWIDTH = 1e9


@dataclass(frozen=True)
class Question:
    """What is asked. ``where`` names the input in messages; ``why`` adds the strategy table (slower)."""

    workload: Workload
    machine: Machine
    space: Space = field(default_factory=Space)
    objective: Objective = "time"
    why: bool = False
    where: str = "plan"
    spec_sha256: str = ""
    overlay: Mapping[str, Mapping[str, float]] | None = None
    failures_per_node_hour: float = FAILURES_PER_NODE_HOUR
    restart_seconds: float = RESTART_SECONDS
    #: What is to be said of the question itself, beside the reasons for the answer.
    notes: tuple[Reason, ...] = ()

    @property
    def constants(self) -> Constants:
        """Constants of this machine under this stack."""
        return constants_for(self.machine.accelerator, self.machine.fabric, self.workload.stack, self.overlay)

    @property
    def model(self) -> StepModel:
        """The evaluator of this question's layouts."""
        return StepModel(self.workload, self.machine, self.constants, self.space.stages)


class DoesNotFit(AnswerNo):
    """No legal layout fits. ``plan`` is the closest one; ``remedies`` are changes that would make it fit."""

    def __init__(self, message: str, plan: Plan | None, found: list[Remedy]):
        self.plan = plan
        self.remedies = found
        options = "; ".join(f"{r.change} ({_saved(r)}{r.slower:.2f}× the machine time)" for r in found)
        super().__init__(message, options or "more or larger accelerators are needed")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, with the closest plan and the remedies."""
        return {
            **super().to_dict(),
            "plan": self.plan.to_dict() if self.plan else None,
            "remedies": [r.to_dict() for r in self.remedies],
        }


def _saved(remedy: Remedy) -> str:
    """Where the host is what is too small a remedy may well hold more on the accelerator."""
    return f"saves {remedy.bytes_saved / GIB:.1f} GiB per accelerator, " if remedy.bytes_saved > 0 else ""


def answer(question: Question) -> Plan:
    """The plan of a question. InputError lists every problem of the input at once; DoesNotFit says what would."""
    _check(question)
    model = question.model
    found = search(model, question.space, question.objective)
    if not found.ranked:
        raise _no(question, model, found)
    plan = to_plan(question, model, found.ranked[0])
    told = reasons(model, found) + not_run(question.workload.stack, found.ranked[0].layout)
    told += question.notes
    extra = dict(plan.extra)
    extra["search"] = {
        "legal": found.legal,
        "fitting": found.fitting,
        "evaluated": found.evaluated,
        "ruled_out": dict(found.counts),
    }
    extra["front"] = [_brief(e) for e in found.front]
    if question.why:
        told += rules_of_thumb(model, found)
        extra["strategies"] = [s.to_dict() for s in strategies(model, question.space)]
    return replace(
        plan,
        reasons=tuple(told),
        runners_up=tuple(_brief(e) for e in found.ranked[1:]),
        rejected=found.rejected,
        extra=extra,
    )


def answer_layout(question: Question, layout: Layout) -> Plan:
    """Evaluate one forced layout, whether or not it fits (``extra.fits`` says so). InputError when it is illegal."""
    _check(question, layout)
    model = question.model
    evaluated = evaluate(model, layout)
    plan = to_plan(question, model, evaluated)
    told = [Reason("This layout was given; nothing was searched.", "--layout")]
    told += not_run(question.workload.stack, layout)
    if not evaluated.fits:
        told.append(Reason(f"It does not fit: {_lacking(evaluated, question.space.headroom)}.", "memory"))
    return replace(plan, reasons=tuple(told))


def _check(question: Question, layout: Layout | None = None) -> None:
    troubles = [*workload_troubles(question.workload), *machine_troubles(question.machine)]
    if layout is not None:
        troubles += layout_troubles(question.workload, question.machine, layout)
    if troubles:
        raise InputError(
            [Problem(question.where, field=name, what=what, instead=way) for name, what, way in troubles]
        )


def _no(question: Question, model: StepModel, found: Found) -> Exception:
    if found.closest is None:
        forced = question.space.forced
        reasons_ = sorted({r.reason for r in found.rejected})
        troubles = [] if reasons_ else forced_troubles(question.workload, question.machine, forced)
        if troubles:
            return InputError(
                [Problem(question.where, field=name, what=what, instead=way) for name, what, way in troubles]
            )
        if not reasons_:
            reasons_ = [f"none has {', '.join(f'{name}={value}' for name, value in forced.items())} together"]
        return InputError(
            [
                Problem(
                    question.where, field="layout", what=f"no legal layout: {text}", instead=_nearest_batch(question)
                )
                for text in reasons_[:8]
            ]
        )
    closest = found.closest
    helping = remedies(model, question.space, closest)
    message = (
        f"{question.workload.dims.name} does not fit on {question.machine.nodes} × {question.machine.name}: with the "
        f"closest of {found.legal} layouts ({closest.layout}) {_lacking(closest, question.space.headroom)}"
    )
    plan = replace(to_plan(question, model, closest), rejected=found.rejected)
    return DoesNotFit(message, plan, helping)


def _nearest_batch(question: Question) -> str:
    """The batches nearest to the asked one that the forced micro-batch divides; empty when it already does."""
    unit, batch = int(question.space.forced.get("micro_batch_size", 1)), question.workload.global_batch_size
    if batch % unit == 0:
        return ""
    near = " or ".join(str(n) for n in (batch // unit * unit, -(-batch // unit) * unit) if n)
    return f"with micro_batch_size={unit}, {near} sequences would be legal"


def _lacking(evaluated: Evaluated, headroom: float) -> str:
    """What there is too little of, with both figures; a plan leaves the share ``headroom`` of the memory free."""
    parts = []
    room = int(evaluated.capacity * (1 - headroom))
    if evaluated.host_bytes > evaluated.host_capacity:
        parts.append(
            f"the host needs {evaluated.host_bytes / GIB:.0f} GiB for what is offloaded, "
            f"{evaluated.host_capacity / GIB:.0f} GiB are usable"
        )
    if evaluated.peak > room or not parts:
        usable = f"{room / GIB:.1f} of {evaluated.capacity / GIB:.1f} usable GiB may be planned"
        parts.insert(0, f"the fullest rank needs {evaluated.peak / GIB:.1f} GiB, {usable}")
    return " and ".join(parts)


def to_plan(question: Question, model: StepModel, best: Evaluated) -> Plan:
    """The Plan value of one evaluated layout, priced; reasons and rivals are left to the caller."""
    w, machine = question.workload, question.machine
    steps = w.steps or (None if w.tokens is None else w.tokens / w.tokens_per_step)
    hours = None if steps is None else steps * best.seconds.total / 3600
    cost = None if hours is None or machine.price is None else hours * machine.nodes * machine.price
    constants = model.constants
    wide = is_outside(model, best)
    saving = w.checkpoint_seconds
    if saving is None:
        saving = checkpoint_bytes(w) / best.layout.world_size / CHECKPOINT_BANDWIDTH
    good = goodput(
        machine.nodes,
        saving,
        hours,
        cost,
        failures_per_node_hour=question.failures_per_node_hour,
        restart_seconds=question.restart_seconds,
    )
    return Plan(
        spec_sha256=question.spec_sha256,
        layout=best.layout,
        machine=f"{machine.nodes} × {machine.name} ({machine.per_node} × {machine.accelerator})",
        facts_date=machine.facts_date or None,
        ranks=tuple(RankClass(stage, rank) for stage, rank in enumerate(best.ranks)),
        step_seconds=best.seconds,
        collectives=best.collectives,
        tokens_per_s=best.tokens_per_s,
        mfu=best.mfu,
        hours=hours,
        cost=cost,
        error_pct={
            "time": time_error_pct(w, machine, constants, best.layout),
            "memory": constants.error_outside_memory_pct if wide else constants.error_memory_pct,
        },
        extra={
            "fits": best.fits,
            "capacity_bytes": best.capacity,
            "peak_bytes": best.peak,
            "host_bytes_per_node": best.host_bytes,
            "chunks": chunks_of(best.layout),
            "mfu_convention": "full attention, recomputation not counted (PaLM, appendix B)",
            "global_batch_size": best.layout.global_batch_size,
            "sequence_length": w.sequence_length,
            "parameters": w.dims.params,
            "workload": {
                "model": w.dims.name,
                "method": w.method,
                "precision": w.precision,
                "optimizer": w.optimizer,
                "tokens": w.tokens,
                "steps": w.steps,
            },
            "stack": w.stack,
            "calibration": constants.source,
            "price_per_node_hour": machine.price,
            "price_date": machine.price_date or None,
            "goodput": good.to_dict(),
        },
    )


def checkpoint_bytes(w: Workload) -> float:
    """Bytes of one full checkpoint: fp32 weights (or weights and master) and optimizer state of what is trained."""
    per = max(4.0, w.state.weights + w.state.master) + OPTIMIZER_BYTES[w.optimizer]
    return per * w.trained_params


def _brief(e: Evaluated) -> dict[str, Any]:
    return {
        "layout": e.layout.to_dict(),
        "seconds": e.seconds.total,
        "tokens_per_s": e.tokens_per_s,
        "mfu": e.mfu,
        "peak_bytes": e.peak,
    }
