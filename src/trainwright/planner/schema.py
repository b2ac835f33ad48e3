"""JSON Schema of ``plan.json``, made from the Plan value's own fields so that the two cannot drift apart."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from trainwright.models.layout import Layout
from trainwright.planner.plan import SCHEMA, Collective, Plan, RankBytes, Reason, StepSeconds

_TYPES: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
}
_NUMBER_OR_NULL = {"type": ["number", "null"]}


def plan_schema() -> dict[str, Any]:
    """JSON Schema 2020-12. ``extra`` is open: what it holds may grow without a new ``schema`` number."""
    layout = _object(Layout, schedule={"type": "string"}, recompute={"type": "string"}, zero={"enum": [0, 1, 2, 3]})
    layout["properties"]["stages"] = {"type": "array", "items": {"type": "integer"}}
    rank = {
        "type": "object",
        "properties": {"pp_stage": {"type": "integer"}, "bytes": _object(RankBytes)},
        "required": ["pp_stage", "bytes"],
    }
    rejected = {"type": "object", "properties": {"layout": layout, "reason": {"type": "string"}}}
    special: dict[str, Any] = {
        "layout": layout,
        "facts_date": {"type": ["string", "null"]},
        "ranks": {"type": "array", "items": rank},
        "step_seconds": {"anyOf": [_object(StepSeconds), {"type": "null"}]},
        "collectives": {"type": "array", "items": _object(Collective)},
        "tokens_per_s": _NUMBER_OR_NULL,
        "mfu": _NUMBER_OR_NULL,
        "hours": _NUMBER_OR_NULL,
        "cost": _NUMBER_OR_NULL,
        "error_pct": {"type": ["object", "null"], "additionalProperties": {"type": "number"}},
        "reasons": {"type": "array", "items": _object(Reason)},
        "runners_up": {"type": "array", "items": {"type": "object"}},
        "rejected": {"type": "array", "items": rejected},
        "extra": {"type": "object"},
        "schema": {"const": SCHEMA},
    }
    whole = _object(Plan, **special)
    whole["required"] = [name for name in whole["required"] if name != "extra"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Trainwright plan", **whole}


def _object(cls: type[Any], **special: Any) -> dict[str, Any]:
    properties = {f.name: special.get(f.name) or _TYPES.get(str(f.type), {}) for f in fields(cls)}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
