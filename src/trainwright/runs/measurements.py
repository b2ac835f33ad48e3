"""metrics.jsonl as it is read: what a crash, a flipped bit or a person spoiled costs that value, never the reader.

Takes records of any shape; gives records whose step is a count and whose values are numbers or None. No torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainwright.runs import jsonl

_LABELS = ("v", "t", "kind", "step", "experts")
_LAST = 2**53  # beyond it a step is no longer a whole number in the programs that read ours


def read_metrics(path: Path, kind: str | None = None) -> Iterator[dict[str, Any]]:
    """Every sound record in order, or those of one kind.

    SystemUnreachable when the file is there and cannot be read.
    """
    for record in jsonl.read(path):
        checked = sound(record)
        if checked is not None and kind in (None, checked["kind"]):
            yield checked


def sound(record: dict[str, Any]) -> dict[str, Any] | None:
    """The record with None for whatever should be a number and is none; None for what belongs to no step."""
    step = record.get("step")
    if record.get("kind") not in ("step", "eval") or type(step) is not int or not 0 <= step < _LAST:
        return None
    checked = {name: value if name in _LABELS else number(value) for name, value in record.items()}
    phases = record.get("phases")
    if phases is not None:
        checked["phases"] = _numbers(phases) if isinstance(phases, dict) else {}
    return checked


def _numbers(values: dict[str, Any]) -> dict[str, float | int]:
    return {name: found for name, value in values.items() if (found := number(value)) is not None}


def number(value: object) -> float | int | None:
    """A finite number, or None for anything else; true and false are no numbers."""
    is_one = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_one and math.isfinite(value) else None  # type: ignore[arg-type,return-value]  # just checked
