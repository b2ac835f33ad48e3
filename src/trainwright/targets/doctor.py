"""What ``doctor`` finds out about a cluster: one line each, with the way to mend it. Values only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "warning", "missing", "unknown"]
_MARKS = {"ok": "ok", "warning": "warn", "missing": "MISSING", "unknown": "?"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``missing`` keeps the run from working; ``unknown`` could not be looked at."""

    state: State
    what: str
    detail: str
    fix: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def listing(checks: Iterable[Check]) -> str:
    """A line for each, its fix below it."""
    lines: list[str] = []
    for one in checks:
        lines.append(f"{_MARKS[one.state]:<8} {one.what}: {one.detail}")
        if one.fix and one.state != "ok":
            lines.append(f"{'':<8} fix: {one.fix}")
    return "\n".join(lines)


def passes(checks: Iterable[Check]) -> bool:
    """True when nothing is missing."""
    return all(one.state != "missing" for one in checks)
