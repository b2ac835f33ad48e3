"""Learning-rate schedules written by hand: functions that return something with a cosine in it.

Takes a PythonDocument; gives the returned expressions with what they depend on. It must not know which shape is
right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.linter.documents import PythonDocument
from trainwright.linter.view.loops import name_of
from trainwright.linter.view.python import nodes

_NAMES = ("lr", "sched", "warmup", "cosine", "anneal", "decay")


@dataclass(frozen=True)
class CosineDecay:
    """One ``return`` of a schedule. ``cosine`` is the call; ``floor`` is F in ``max(F, … cos …)``."""

    function: ast.FunctionDef | ast.Lambda
    value: ast.expr
    cosine: ast.Call
    floor: ast.expr | None

    @property
    def progress(self) -> ast.Name | None:
        """The name that stands for how far the run has come, when the cosine is of ``pi * name``."""
        names = [n for n in ast.walk(self.cosine) if isinstance(n, ast.Name) and name_of(self.cosine.func) != n.id]
        own = [n for n in names if n.id not in ("math", "np", "numpy", "torch", "pi")]
        return own[0] if len(own) == 1 else None


def cosine_decays(document: PythonDocument) -> Iterator[CosineDecay]:
    """Every such return of a function that is about learning rates by its name."""
    if "cos" not in document.text.content:
        return
    for function in nodes(document):
        if not isinstance(function, ast.FunctionDef) or not any(part in function.name.lower() for part in _NAMES):
            continue
        for node in function.body:
            for statement in ast.walk(node):
                if isinstance(statement, ast.Return) and statement.value is not None:
                    yield from _decay(function, statement.value)


def _decay(function: ast.FunctionDef, value: ast.expr) -> Iterator[CosineDecay]:
    cosine = next(
        (
            n
            for n in ast.walk(value)
            if isinstance(n, ast.Call)
            and name_of(n.func) == "cos"
            and any(isinstance(part, ast.Attribute | ast.Name) and name_of(part) == "pi" for part in ast.walk(n))
        ),
        None,
    )
    if cosine is None:
        return
    floor = None
    if isinstance(value, ast.Call) and name_of(value.func) == "max" and len(value.args) == 2:
        floor = next((a for a in value.args if not any(part is cosine for part in ast.walk(a))), None)
    yield CosineDecay(function, value, cosine, floor)


def assignments(function: ast.FunctionDef | ast.Lambda, name: str) -> list[ast.expr]:
    """What a function assigns to a name."""
    return [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
