"""The same training on several machine types and node counts: what each takes and costs, and which meets a limit.

Takes a workload and a list of node types; gives offers, and picks the cheapest that keeps a deadline or the fastest
within a budget. Must not read facts: machines come with their price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainwright.errors import AnswerNo, InputError
from trainwright.planner.answer import DoesNotFit, Question, answer
from trainwright.planner.plan import Plan
from trainwright.planner.workload import Machine

Overlay = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Offer:
    """One machine type and size. ``plan`` is None where nothing fits, with the reason."""

    machine: str
    nodes: int
    accelerators: int
    hours: float | None
    cost: float | None
    tokens_per_s: float | None
    mfu: float | None
    layout: str | None
    reason: str
    price: float | None
    price_date: str
    #: Error bar of the time, in percent.
    error_pct: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def offers(
    question: Question, machines: Iterable[Machine], overlays: Mapping[str, Overlay] | None = None
) -> list[tuple[Offer, Plan | None]]:
    """Plan on each machine. Order is that of the machines. ``overlays``: a machine's own constants by its name;
    without, the question's are kept, which then must be of the same machine.
    """
    found: list[tuple[Offer, Plan | None]] = []
    for machine in machines:
        plan: Plan | None = None
        reason = ""
        if question.workload.precision not in dict(machine.peak):
            reason = f"{machine.accelerator} does not compute {question.workload.precision}"
            found.append((_offer(machine, None, reason), None))
            continue
        try:
            overlay = question.overlay if overlays is None else overlays.get(machine.name)
            plan = answer(replace(question, machine=machine, overlay=overlay, why=False))
        except DoesNotFit as error:
            reason = error.message
        except InputError as error:
            reason = "; ".join(f"{p.field}: {p.what}" for p in error.problems)
        found.append((_offer(machine, plan, reason), plan))
    return found


def _offer(machine: Machine, plan: Plan | None, reason: str) -> Offer:
    return Offer(
        machine=machine.name,
        nodes=machine.nodes,
        accelerators=machine.world_size,
        hours=plan.hours if plan else None,
        cost=plan.cost if plan else None,
        tokens_per_s=plan.tokens_per_s if plan else None,
        mfu=plan.mfu if plan else None,
        layout=str(plan.layout) if plan else None,
        reason=reason,
        price=machine.price,
        price_date=machine.price_date,
        error_pct=(plan.error_pct or {}).get("time") if plan else None,
    )


def sizes(machine: Machine, most_nodes: int, global_batch_size: int) -> list[Machine]:
    """The machine at 1, 2, 4 … nodes, as many as the global batch can keep busy."""
    counts = []
    nodes = 1
    while nodes <= most_nodes and nodes <= max(1, global_batch_size):
        counts.append(replace(machine, nodes=nodes))
        nodes *= 2
    return counts


def pick(
    found: Sequence[tuple[Offer, Plan | None]], *, deadline_hours: float | None, budget: float | None
) -> tuple[Offer, Plan]:
    """The cheapest offer within the deadline and budget, or without prices the one with the fewest node-hours.

    With a budget alone: the fastest within it. AnswerNo says how near the best came.
    """
    able = [(offer, plan) for offer, plan in found if plan is not None and offer.hours is not None]
    if not able:
        raise AnswerNo("the model fits on none of these machines", "; ".join(sorted({o.reason for o, _ in found})))
    within = [
        (offer, plan)
        for offer, plan in able
        if (deadline_hours is None or (offer.hours or 0) <= deadline_hours)
        and (budget is None or (offer.cost is not None and offer.cost <= budget))
    ]
    if not within:
        fastest = min(able, key=lambda o: o[0].hours or 0)[0]
        priced = [o for o, _ in able if o.cost is not None]
        parts = [f"the fastest takes {fastest.hours:.3g} h on {fastest.nodes} × {fastest.machine}"]
        if priced:
            cheapest = min(priced, key=lambda o: o.cost or 0)
            parts.append(f"the cheapest costs ${cheapest.cost:,.0f} on {cheapest.nodes} × {cheapest.machine}")
        elif budget is not None:
            parts.append("no price is known for these machines: give one with --price")
        raise AnswerNo("no machine meets the deadline and the budget", "; ".join(parts))
    if deadline_hours is None:
        return min(within, key=lambda o: (o[0].hours or 0, o[0].cost or 0))
    return min(
        within,
        key=lambda o: (o[0].cost if o[0].cost is not None else (o[0].hours or 0) * o[0].nodes, o[0].hours or 0),
    )


def front(found: Iterable[Offer]) -> list[Offer]:
    """Offers that no other beats in both hours and cost, fastest first. Offers without a price are left out."""
    priced = sorted((o for o in found if o.cost is not None and o.hours), key=lambda o: (o.hours or 0, o.cost or 0))
    kept: list[Offer] = []
    for offer in priced:
        if not kept or (offer.cost or 0) < (kept[-1].cost or 0):
            kept.append(offer)
    return kept
