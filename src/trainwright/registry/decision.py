"""The gate's answer: may this model be registered, and the numbers behind the answer in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainwright.spec.gate import GateError, parse_gate


@dataclass(frozen=True)
class Decision:
    """``holds`` is what counts; ``sentence`` says why, with every number that the condition reads."""

    text: str | None
    holds: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)


def decide(text: str | None, metrics: Mapping[str, float]) -> Decision:
    """Decide a gate. No gate lets everything pass; one that cannot be decided lets nothing pass."""
    if text is None:
        return Decision(None, True, "no gate was set")
    try:
        gate = parse_gate(text)
        holds = gate.holds(metrics)
    except GateError as error:
        return Decision(text, False, f"{text} cannot be decided: {error}")
    numbers = ", ".join(f"{name} = {_short(metrics[name])}" for name in sorted(gate.names))
    return Decision(text, holds, f"{text} {'holds' if holds else 'does not hold'}: {numbers}")


def _short(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else str(value)
