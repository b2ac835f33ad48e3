"""``plan diff A B``: what changed between two plans, as plain rows. Must not print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainwright.planner.plan import Plan

#: Parts that are long and follow from the rest.
_LEFT_OUT = {"rejected", "runners_up", "reasons", "schema", "extra", "collectives"}


@dataclass(frozen=True)
class Change:
    """One value that differs; ``percent`` where both are numbers and the first is not zero."""

    name: str
    before: Any
    after: Any
    percent: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {"name": self.name, "before": self.before, "after": self.after, "percent": self.percent}


def diff(a: Plan, b: Plan) -> list[Change]:
    """Every leaf that differs, by dotted name, in a stable order. ``ranks`` are compared stage by stage."""
    before, after = _leaves(a), _leaves(b)
    changes = []
    for name in sorted({*before, *after}):
        x, y = before.get(name), after.get(name)
        if x != y:
            changes.append(Change(name, x, y, _percent(x, y)))
    return changes


def _percent(x: Any, y: Any) -> float | None:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (x, y))
    return 100 * (y / x - 1) if numbers and x else None


def _leaves(plan: Plan) -> dict[str, Any]:
    values = plan.to_dict()
    leaves: dict[str, Any] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else key, inner)
        elif prefix == "ranks":
            for rank in value:
                walk(f"ranks.stage_{rank['pp_stage']}", rank["bytes"])
        else:
            leaves[prefix] = value

    for key, value in values.items():
        if key not in _LEFT_OUT:
            walk(key, value)
    if plan.step_seconds is not None:
        leaves["step_seconds.total"] = plan.step_seconds.total
    for rank in plan.ranks:
        leaves[f"ranks.stage_{rank.pp_stage}.total"] = rank.bytes.total
    return leaves
