"""evaluation.json as a report reads it: every part in its shape, or left out.

Takes a path; gives plain values that a page can be made of, whatever a crash or a person did to the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainwright.runs.folder import read_json
from trainwright.runs.measurements import number

Row = dict[str, Any]


def read_evaluation(path: Path) -> Row:
    """``samples`` and ``tasks`` are lists of objects, ``gate`` and ``registered`` objects; empty without a file."""
    values = read_json(path) or {}
    tasks = [_task(task) for task in _objects(values.get("tasks"))]
    registered = _object(values.get("registered"))
    place = registered.get("path")
    if not isinstance(place, str) or not place:
        registered = {}
    aliases = registered.get("aliases")
    notes = values.get("notes")
    return {
        **values,
        "samples": _objects(values.get("samples")),
        "tasks": tasks,
        "gate": _object(values.get("gate")),
        "registered": {**registered, "aliases": aliases if isinstance(aliases, list) else []} if registered else None,
        "notes": notes if isinstance(notes, list) else [],
    }


def _task(task: Row) -> Row:
    checked = {name: number(task.get(name)) for name in ("score", "standard_error")}
    return {**task, **checked, "examples": _objects(task.get("examples"))}


def _objects(value: object) -> list[Row]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _object(value: object) -> Row:
    return value if isinstance(value, dict) else {}
