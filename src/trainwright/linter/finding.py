"""Finding: one defect that the linter saw, where it stands, why it hurts and what to write instead."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Edit:
    """One safe replacement of a span of text. Lines and columns are 1-based; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class Finding:
    """One defect. Lines and columns are 1-based; ``end_column`` is exclusive. ``fix`` is None unless it is safe."""

    rule: str
    category: str
    severity: Severity
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    quoted: str
    why: str
    instead: str
    fix: tuple[Edit, ...] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values under the names of the contract."""
        return {**asdict(self), "fix": None if self.fix is None else [asdict(edit) for edit in self.fix]}
