"""TW854: a cosine schedule that goes up again after its last step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import name_of
from trainwright.linter.view.schedules import CosineDecay, assignments, cosine_decays


class LearningRateRisesAgain(PythonRule):
    """A cosine is periodic."""

    id = "TW854"
    severity = "note"
    category = "frameworks"
    summary = "a cosine learning rate that rises again when a run goes beyond its planned steps"
    evidence = "reproduced"
    source = "arithmetic, reproduced: without a bound the factor is 1.0 again at twice the number of steps"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Schedules whose progress is a share of the run without an upper bound."""
        for decay in cosine_decays(subject):
            progress = decay.progress
            if progress is None or _bounded(decay):
                continue
            values = assignments(decay.function, progress.id)
            if len(values) != 1 or not any(isinstance(n, ast.Div) for n in ast.walk(values[0])):
                continue
            yield self.hit(
                subject.span(values[0]),
                f"{progress.id} grows beyond 1 when training goes on after the planned steps (a resumed or extended "
                "run): the cosine is periodic, and the learning rate rises to its maximum again",
                f"{progress.id} = min(1.0, …)",
            )


def _bounded(decay: CosineDecay) -> bool:
    """Whether anything bounds the progress: min, clamp, or an early return for later steps."""
    for node in ast.walk(decay.function):
        if isinstance(node, ast.Call) and name_of(node.func) in ("min", "minimum", "clamp", "clip"):
            return True
        if isinstance(node, ast.Compare) and any(isinstance(op, ast.Gt | ast.GtE | ast.Mod) for op in node.ops):
            return True
        if isinstance(node, ast.Mod):
            return True
    return False
