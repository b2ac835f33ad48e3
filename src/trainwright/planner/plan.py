"""Plan: the answer of the planner, and what ``render`` and ``submit`` are bound to.

A plan says which layout runs, what each class of rank holds in memory, where a step's time goes, how long the
run takes and what it costs, and why. It is plain data: it can be printed, saved, diffed and read back.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trainwright import plain_json
from trainwright.errors import InputError, Problem
from trainwright.models.layout import Layout, LayoutError

SCHEMA = 1


@dataclass(frozen=True)
class RankBytes:
    """Bytes that one rank holds at its peak, by kind."""

    weights: int = 0
    gradients: int = 0
    master: int = 0
    optimizer: int = 0
    activations: int = 0
    logits: int = 0
    communication: int = 0
    reserve: int = 0

    @property
    def total(self) -> int:
        """Sum over all kinds, in bytes."""
        return int(sum(vars(self).values()))


@dataclass(frozen=True)
class RankClass:
    """Ranks that hold the same amount: those of one pipeline stage."""

    pp_stage: int
    bytes: RankBytes


@dataclass(frozen=True)
class StepSeconds:
    """Seconds of one optimizer step that are *exposed* (not hidden behind compute), by kind."""

    compute: float = 0.0
    tp: float = 0.0
    cp: float = 0.0
    ep: float = 0.0
    dp: float = 0.0
    pp_p2p: float = 0.0
    bubble: float = 0.0
    optimizer: float = 0.0
    data: float = 0.0
    checkpoint: float = 0.0

    @property
    def total(self) -> float:
        """Seconds of one optimizer step."""
        return float(sum(vars(self).values()))


@dataclass(frozen=True)
class Collective:
    """One kind of collective that a rank takes part in during a step: payload bytes of one call, calls a step."""

    kind: str
    dim: str
    bytes: int
    count: int


@dataclass(frozen=True)
class Reason:
    """One sentence that explains a choice, and where the knowledge comes from."""

    text: str
    source: str


@dataclass(frozen=True)
class Rejected:
    """A layout that was looked at and why it was not taken."""

    layout: Layout
    reason: str


@dataclass(frozen=True)
class Plan:
    """The planner's answer. A figure that could not be known is None, never a guess."""

    spec_sha256: str
    layout: Layout
    machine: str
    facts_date: str | None = None
    ranks: tuple[RankClass, ...] = ()
    step_seconds: StepSeconds | None = None
    collectives: tuple[Collective, ...] = ()
    tokens_per_s: float | None = None
    mfu: float | None = None
    hours: float | None = None
    cost: float | None = None
    error_pct: dict[str, float] | None = None
    reasons: tuple[Reason, ...] = ()
    runners_up: tuple[dict[str, Any], ...] = ()
    rejected: tuple[Rejected, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values under the names of the contract."""
        values = asdict(self)
        values["layout"] = self.layout.to_dict()
        values["rejected"] = [{"layout": r.layout.to_dict(), "reason": r.reason} for r in self.rejected]
        if not self.extra:
            del values["extra"]
        return values

    def to_json(self) -> str:
        """Deterministic, readable JSON that ends in a newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Plan:
        """Read what ``to_dict`` wrote; raises KeyError, TypeError, ValueError or LayoutError on anything else."""
        values = dict(values)
        if values.get("schema") != SCHEMA:
            raise ValueError(f"plan schema is {values.get('schema')!r}; this version reads {SCHEMA}")
        parts = [values.get("step_seconds") or {}, *(rank["bytes"] for rank in values.get("ranks", ()))]
        for name, number in ((n, v) for part in parts for n, v in part.items()):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError(f"{name} is {number!r}, a number is needed")
        if not isinstance(values.setdefault("extra", {}), dict):
            raise ValueError(f"extra is {values['extra']!r}, an object is needed")
        values["layout"] = Layout.from_dict(values["layout"])
        values["ranks"] = tuple(RankClass(r["pp_stage"], RankBytes(**r["bytes"])) for r in values.get("ranks", ()))
        if values.get("step_seconds") is not None:
            values["step_seconds"] = StepSeconds(**values["step_seconds"])
        values["collectives"] = tuple(Collective(**c) for c in values.get("collectives", ()))
        values["reasons"] = tuple(Reason(**r) for r in values.get("reasons", ()))
        values["runners_up"] = tuple(values.get("runners_up", ()))
        values["rejected"] = tuple(
            Rejected(Layout.from_dict(r["layout"]), r["reason"]) for r in values.get("rejected", ())
        )
        return cls(**values)

    @classmethod
    def read(cls, path: Path) -> Plan:
        """Read a ``plan.json``; anything wrong with it is an InputError that names the file."""
        try:
            return cls.from_dict(plain_json.loads(path.read_text()))
        except OSError as error:
            raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error
        except (KeyError, TypeError, ValueError, AttributeError, LayoutError, RecursionError) as error:
            what = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            if isinstance(error, TypeError | AttributeError):
                what = "its values have other types than a plan's"
            raise InputError(
                [
                    Problem(
                        str(path),
                        what=f"is not a plan: {what}",
                        instead="write one with `trainwright plan --output json`",
                    )
                ]
            ) from error
