"""JSON as other programs may have left it: whatever is wrong with it is a ValueError; what is written is strict JSON.

Takes and gives text and plain values. Must not know what the values mean.
"""

from __future__ import annotations

import json
import math
from typing import Any

_DIGITS = 300  # a longer integer is larger than any float, and no count, size or time


def loads(text: str | bytes | bytearray) -> Any:
    """Read JSON. Nesting that exhausts the stack and integers beyond any float are ValueErrors too."""
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Write strict JSON: numbers that are not finite become null, since JSON has no word for them."""
    try:
        return json.dumps(value, indent=indent, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, default=str, allow_nan=False)


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"holds an integer of {len(digits)} digits")
    return int(digits)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
