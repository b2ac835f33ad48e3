"""What ``trainwright plan`` answers: chooses between a spec, a question, a diff, a comparison and a calibration.

Takes one ``Request`` of plain values and gives a ``Response`` with JSON-ready data, text and an exit code. Writes
only the files that were asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem, did_you_mean
from trainwright.facts import prices
from trainwright.models.layout import Layout
from trainwright.planner import asked as asked_
from trainwright.planner.answer import DoesNotFit, Question, answer, answer_layout
from trainwright.planner.offers import Offer
from trainwright.planner.plan import Plan
from trainwright.planner.search import Objective
from trainwright.reports.plan_options import contradictions, of_this_machine


@dataclass(frozen=True)
class Request:
    """Everything that was typed. ``what`` is empty, a spec, or ``diff`` and two files."""

    what: tuple[str, ...]
    asked: asked_.Asked
    rank_by: str = "time"
    why: bool = False
    compare: str | None = None
    deadline: str | None = None
    budget: float | None = None
    max_nodes: int = 512
    calibrate: Path | None = None
    save: Path | None = None
    pictures: Path | None = None
    overrides: tuple[str, ...] = ()
    site: Path | None = None
    #: Names of the options that were typed: what would not be read is refused.
    given: frozenset[str] = frozenset()
    colour: bool = False


@dataclass(frozen=True)
class Response:
    """``value`` for programs, ``text`` for people."""

    value: dict[str, Any]
    text: str
    exit_code: int = 0

    def show(self, as_json: bool) -> None:
        """Print one of the two."""
        print(json.dumps(self.value, indent=2, sort_keys=True) if as_json else self.text)  # noqa: T201


def respond(request: Request) -> Response:
    """Answer. InputError for bad input; a plan that does not fit is a Response with exit code 1."""
    unread = contradictions(request.what, request.given, adapters=request.asked.method != "full")
    if unread and request.what:
        raise InputError(unread)
    if request.what[:1] == ("diff",):
        return _diff(request)
    _check_places(request)
    if (local := _local_plan(request)) is not None:
        _write(request, local)
        return Response(local.to_dict(), _local_text(local), 0)
    question, layout, asked = _question(request, unread)
    if request.calibrate is not None:
        return _calibrate(request, question)
    if request.compare or request.deadline is not None or request.budget is not None:
        return _offers(request, question, asked)
    try:
        plan = answer_layout(question, layout) if layout is not None else answer(question)
    except DoesNotFit as error:
        return _does_not_fit(request, error)
    _write(request, plan)
    from trainwright.reports.plan_text import plan_text

    return Response(plan.to_dict(), plan_text(plan, colour=request.colour), 0 if plan.extra.get("fits", True) else 1)


def _local_plan(request: Request) -> Plan | None:
    """The plan of a spec that runs on this machine, which is nobody's instance type: layout and reasons only."""
    if len(request.what) != 1:
        return None
    from trainwright.planner.explicit import plan_local
    from trainwright.spec.load import load

    loaded = load(request.what[0], request.overrides, request.site)
    if loaded.spec.compute.instance != "local":
        return None
    if unread := of_this_machine(request.given):
        raise InputError(unread)
    return plan_local(loaded)


def _local_text(plan: Plan) -> str:
    lines = [f"{plan.layout} on {plan.machine}", *(f" • {reason.text} ({reason.source})" for reason in plan.reasons)]
    return "\n".join(
        [*lines, "Memory, time and cost are planned for instance types: --set compute.instance=p5.48xlarge"]
    )


def _question(request: Request, unread: list[Problem]) -> tuple[Question, Layout | None, asked_.Asked]:
    """The question, the forced layout, and what was asked of the clusters of ``--compare``."""
    # On one machine the cheapest layout is the fastest.
    objectives: dict[str, Objective] = {"time": "time", "cost": "time", "memory": "memory"}
    problems = list(unread)
    objective = objectives.get(request.rank_by)
    if objective is None:
        way = did_you_mean(request.rank_by, ("time", "cost", "memory"))
        problems.append(Problem("plan", field="--rank-by", what=f"is {request.rank_by!r}", instead=way))
    problems += _limits(request)
    if not request.what:
        try:
            asked = asked_.at_first_of(request.asked, _names(request.compare))
            question, layout = asked_.question_of(asked, why=request.why)
        except InputError as error:
            raise InputError([*problems, *error.problems]) from error
        if problems or objective is None:
            raise InputError(problems)
        return replace(question, objective=objective), layout, asked
    if problems or objective is None:
        raise InputError(problems)
    if len(request.what) > 1:
        way = "one spec, or: plan diff A B"
        raise InputError([Problem("plan", what=f"has {len(request.what)} arguments", instead=way)])
    from trainwright.planner.for_spec import question_of
    from trainwright.spec.load import load

    loaded = load(request.what[0], request.overrides, request.site)
    question = asked_.beside_spec(request.asked, replace(question_of(loaded, why=request.why), objective=objective))
    layout = asked_.parse_layout(request.asked.layout) if request.asked.layout else None
    compute, given = loaded.spec.compute, request.given
    asked = replace(
        request.asked,
        nodes=request.asked.nodes or compute.nodes,
        capacity=request.asked.capacity if "capacity" in given else compute.capacity,
        region=request.asked.region if "region" in given else loaded.site.region or prices.DEFAULT_REGION,
    )
    return question, layout, asked


def _diff(request: Request) -> Response:
    from trainwright.planner.differ import diff
    from trainwright.reports.plan_text import diff_text

    if len(request.what) != 3:
        what = f"diff needs two plan files, not {len(request.what) - 1}"
        raise InputError([Problem("plan", what=what, instead="trainwright plan diff A.json B.json")])
    before, after = (Plan.read(Path(name)) for name in request.what[1:])
    changes = diff(before, after)
    value = {"changed": bool(changes), "changes": [c.to_dict() for c in changes]}
    return Response(value, diff_text(changes, colour=request.colour), 1 if changes else 0)


def _does_not_fit(request: Request, error: DoesNotFit) -> Response:
    from trainwright.reports.plan_text import plan_text, remedies_table, render

    parts: list[Any] = [error.message, remedies_table(error.remedies) if error.remedies else error.way_out]
    text = render(parts, colour=request.colour)
    if error.plan is not None:
        _write(request, error.plan)
        text += "\n\nThe closest layout:\n" + plan_text(error.plan, colour=request.colour)
    return Response(error.to_dict(), text, error.exit_code)


def _offers(request: Request, question: Question, asked: asked_.Asked) -> Response:
    from trainwright.planner.offers import offers, pick, sizes
    from trainwright.reports.plan_text import offers_table, plan_text, render, workload_line
    from trainwright.spec.units import Duration

    names = _names(request.compare)
    clusters, overlays = asked_.machines(asked, names) if names else ([question.machine], None)
    hours = None if request.deadline is None else Duration.parse(request.deadline).seconds / 3600
    limited = hours is not None or request.budget is not None
    if limited:
        if question.workload.tokens is None and question.workload.steps is None:
            what = "is missing: a deadline or budget needs the length of the run"
            raise InputError([Problem("plan", field="--tokens", what=what, instead="--tokens 1e12")])
        batch = question.workload.global_batch_size
        clusters = [size for one in clusters for size in sizes(one, request.max_nodes, batch)]
    found = offers(question, clusters, overlays)
    rows = [offer.to_dict() for offer, _ in found]
    first = next((plan for _, plan in found if plan is not None), None)
    above = [] if first is None or limited else [workload_line(first)]
    table = render([*above, offers_table([offer for offer, _ in found])], colour=request.colour)
    _write_cost(request, [offer for offer, _ in found])
    if not limited:
        return Response({"offers": rows}, table, 0 if any(plan for _, plan in found) else 1)
    try:
        offer, plan = pick(found, deadline_hours=hours, budget=request.budget)
    except AnswerNo as error:
        return Response({**error.to_dict(), "offers": rows}, f"{error}\n\n{table}", error.exit_code)
    plan = replace(plan, extra={**plan.extra, "offers": rows})
    _write(request, plan)
    text = _chosen(offer, hours, request.budget) + "\n" + plan_text(plan, colour=request.colour)
    return Response(plan.to_dict(), text)


def _chosen(offer: Offer, deadline_hours: float | None, budget: float | None) -> str:
    """Which offer was chosen and for what, and whether it keeps the limits at the far edge of its error bar too."""
    for_what = "the fastest within the budget" if deadline_hours is None else "the cheapest that keeps the deadline"
    if deadline_hours is not None and budget is not None:
        for_what += " and the budget"
    late = 1 + (offer.error_pct or 0) / 100
    missed = [
        name
        for name, value, limit in (("deadline", offer.hours, deadline_hours), ("budget", offer.cost, budget))
        if value is not None and limit is not None and value * late > limit
    ]
    edge = f"; {late - 1:.0%} slower, the far edge of its error bar, misses the {' and the '.join(missed)}"
    return f"{offer.nodes} × {offer.machine}: {for_what}{edge if missed else ''}"


def _names(compare: str | None) -> list[str]:
    return [name.strip() for name in (compare or "").split(",") if name.strip()]


def _check_places(request: Request) -> None:
    """Say what cannot be written before anything is computed."""
    problems = []
    for option, path in (("--save", request.save), ("--pictures", request.pictures)):
        if path is None:
            continue
        above = path.parent if option == "--save" else next(p for p in (path, *path.parents) if p.exists())
        if not above.is_dir():
            what = f"is {path}, but {above} is no folder" if above.exists() else f"is {path}, but there is no {above}"
            problems.append(Problem("plan", field=option, what=what, instead="name a place in a folder that exists"))
    if request.save is not None and request.save.is_dir():
        problems.append(Problem("plan", field="--save", what=f"is {request.save}, a folder", instead="name a file"))
    if problems:
        raise InputError(problems)


def _limits(request: Request) -> list[Problem]:
    """What is wrong with deadline, budget and the most nodes, and lists that hold nothing."""
    from trainwright.spec.units import Duration

    problems = []
    for option, text in (("--compare", request.compare), ("--layout", request.asked.layout)):
        if text is not None and not text.strip(" ,"):
            problems.append(Problem("plan", field=option, what="is empty", instead="write what it is to hold"))
    if request.deadline is not None:
        try:
            Duration.parse(request.deadline)
        except ValueError as error:
            problems.append(Problem("plan", field="--deadline", what=str(error)))
    if request.budget is not None and not 0 < request.budget < float("inf"):
        way = "a positive number of US dollars is needed"
        problems.append(Problem("plan", field="--budget", what=f"is {request.budget}", instead=way))
    if not 1 <= request.max_nodes <= 1_000_000:
        way = "from 1 to 1,000,000 nodes can be tried"
        problems.append(Problem("plan", field="--max-nodes", what=f"is {request.max_nodes}", instead=way))
    return problems


def _calibrate(request: Request, question: Question) -> Response:
    from trainwright.planner.calibrate import calibrate, measured

    folder = request.calibrate or Path()
    run_plan = Plan.read(folder / "plan.json")
    if run_plan.machine.startswith("this machine"):
        what = f"is of {run_plan.machine}: which accelerators those are it does not say, and CPUs are not modelled"
        way = "calibrate with a run whose compute.instance is an instance type or a machine file"
        raise InputError([Problem(str(folder / "plan.json"), what=what, instead=way)])
    parameters = run_plan.extra.get("parameters")
    if (
        parameters not in (None, question.workload.dims.params)
        or question.machine.accelerator not in run_plan.machine
    ):
        what = f"is of {parameters:,} parameters on {run_plan.machine}" if parameters else f"is of {run_plan.machine}"
        asked = f"{question.workload.dims.params:,} on {question.machine.accelerator}"
        way = f"name the model and machine that ran, not {asked}"
        raise InputError([Problem(str(folder / "plan.json"), what=what, instead=way)])
    sequence, asked_for = run_plan.extra.get("sequence_length"), question.workload.sequence_length
    if sequence not in (None, asked_for):
        what, way = f"is of sequences of {sequence} tokens, not {asked_for}", f"--sequence-length {sequence}"
        raise InputError([Problem(str(folder / "plan.json"), what=what, instead=way)])
    rate, peak = measured(folder / "metrics.jsonl")
    seconds = run_plan.layout.global_batch_size * question.workload.sequence_length / rate
    found = calibrate(question, run_plan.layout, seconds, peak, str(folder))
    path = request.save or Path(f"calibration-{question.machine.accelerator}.json")
    path.write_text(json.dumps(found.to_dict(), indent=2, sort_keys=True) + "\n")
    text = (
        f"a step took {seconds:.4g} s, {found.predicted_seconds:.4g} s were predicted; this machine sustains "
        f"{100 * found.chip['gemm_efficiency']:.1f} % of its peak\n"
        f"written to {path}; use it with --calibration {path}"
    )
    return Response({**found.to_dict(), "path": str(path)}, text)


def _write(request: Request, plan: Plan) -> None:
    if request.save is not None:
        request.save.write_text(plan.to_json())
    if request.pictures is not None:
        from trainwright.reports.plan_pictures import memory_bars, timeline

        request.pictures.mkdir(parents=True, exist_ok=True)
        (request.pictures / "memory.svg").write_text(memory_bars(plan))
        (request.pictures / "timeline.svg").write_text(timeline(plan))


def _write_cost(request: Request, found: list[Any]) -> None:
    if request.pictures is not None:
        from trainwright.reports.plan_pictures import cost_front

        request.pictures.mkdir(parents=True, exist_ok=True)
        (request.pictures / "cost.svg").write_text(cost_front(found))
