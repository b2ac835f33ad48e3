"""TW833: each micro-batch's loss must be divided by the number of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import around, innermost_loop, name_of
from trainwright.linter.view.python import calls_of, imports_module


class AccumulatedLossNotDivided(PythonRule):
    """Accumulated gradients are a sum."""

    id = "TW833"
    severity = "warning"
    category = "frameworks"
    summary = "gradient accumulation adds losses up instead of averaging them"
    evidence = "reproduced"
    source = "huggingface/transformers#34191; reproduced: with uneven masks the mean of means is off by half"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """``backward`` in a loop whose ``step`` waits for ``% N``."""
        if any(calls_of(subject, ".accumulate")) or imports_module(subject, "deepspeed"):
            return
        for step in calls_of(subject, ".step"):
            waits = [n for n in around(subject, step.node) if isinstance(n, ast.If) and _every(n.test)]
            loop = innermost_loop(subject, step.node)
            if not waits or loop is None or _divides(loop):
                continue
            for call in calls_of(subject, ".backward"):
                if innermost_loop(subject, call.node) is loop and waits[0] not in set(around(subject, call.node)):
                    yield self.hit(
                        call.span,
                        "the optimizer steps only every few batches, and this loss is not divided by their number: "
                        "the "
                        "gradients add up and each step is that many times too large",
                        "(loss / accumulation_steps).backward(), or the summed loss divided by the tokens of all "
                        "micro-batches",
                    )
                    return


def _every(test: ast.expr) -> bool:
    """``(step + 1) % N == 0`` or ``not step % N`` anywhere in a condition."""
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod) for n in ast.walk(test))


def _divides(loop: ast.For | ast.While) -> bool:
    """Whether anything in the loop is divided or scaled, by an operator or by ``div_``."""
    for node in ast.walk(loop):
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and "scale" in ast.dump(node).lower():
            return True
        if isinstance(node, ast.Call) and name_of(node) in ("div", "div_", "true_divide", "train_step", "no_sync"):
            return name_of(node) != "no_sync"
    return False
