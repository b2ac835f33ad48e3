"""Trainwright: one spec plans, launches, watches, checkpoints, evaluates and registers a training run.

Every verb of the command line is a function here with the same values: ``load``, ``plan``, ``render``,
``submit``, ``status``, ``lint``, … Importing this package imports none of them until they are used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

#: name → module that holds it
_API = {
    "load": "trainwright.api",
    "plan": "trainwright.api",
    "render": "trainwright.api",
    "submit": "trainwright.api",
    "status": "trainwright.api",
    "events": "trainwright.api",
    "cancel": "trainwright.api",
    "resume": "trainwright.api",
    "schema": "trainwright.api",
    "lint": "trainwright.api",
}
__all__ = ["__version__", *_API]


def __getattr__(name: str) -> Any:
    if name in _API:
        return getattr(importlib.import_module(_API[name]), name)
    raise AttributeError(f"module 'trainwright' has no attribute {name!r}")
