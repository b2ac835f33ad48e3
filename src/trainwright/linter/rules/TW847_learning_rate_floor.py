"""TW847: a cosine schedule that is cut off at its floor instead of ending there."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import literal
from trainwright.linter.view.schedules import cosine_decays


class LearningRateFloor(PythonRule):
    """``max(floor, cosine)`` is flat at its end."""

    id = "TW847"
    severity = "warning"
    category = "frameworks"
    summary = "a cosine learning rate cut off at its minimum instead of decaying to it"
    evidence = "reproduced"
    source = "arithmetic, reproduced: with a floor of 0.1 the factor is constant for the last 20 % of the steps"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Returns of ``max(floor, half a cosine)`` with a floor that is not zero."""
        for decay in cosine_decays(subject):
            if decay.floor is None or literal(decay.floor) in (0, 0.0):
                continue
            name = ast.unparse(decay.floor)
            if any(name == ast.unparse(part) for part in ast.walk(decay.cosine)):
                continue
            other = next((arg for arg in getattr(decay.value, "args", []) if arg is not decay.floor), None)
            if other is None or any(
                ast.unparse(part) == name for part in ast.walk(other) if isinstance(part, ast.expr)
            ):
                continue
            yield self.hit(
                subject.span(decay.value),
                f"max({name}, …) cuts the cosine off: the rate reaches {name} early and stays there for the rest of "
                f"the run{_share(decay.floor)}, instead of decaying to it at the end",
                f"{name} + (1 - {name}) * 0.5 * (1 + cos(pi * progress))",
            )


def _share(floor: ast.expr) -> str:
    value = literal(floor)
    if not isinstance(value, int | float) or not 0 < value < 1:
        return " (a fifth of the steps for 0.1)"
    return f" (the last {100 * (1 - math.acos(2 * value - 1) / math.pi):.0f} % of the steps)"
