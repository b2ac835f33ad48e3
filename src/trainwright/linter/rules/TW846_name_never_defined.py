"""TW846: a name that nothing in the file defines."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import imports, imports_module
from trainwright.linter.view.undefined import MODULES, undefined

_TRAINING = ("torch", "transformers", "ray", "accelerate", "deepspeed", "jax", "tensorflow", "lightning", "optimum")


class NameNeverDefined(PythonRule):
    """A NameError waits until the line runs."""

    id = "TW846"
    severity = "warning"
    category = "frameworks"
    summary = "a name that is used and defined nowhere in the file"
    evidence = "reproduced"
    source = "Python language reference: a name that is bound nowhere raises NameError; reproduced"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Training programs that are files of their own."""
        if subject.holder is not None or subject.path.endswith((".md", ".mdx", ".markdown", ".ipynb")):
            return
        if not any(imports_module(subject, module) for module in _TRAINING):
            return
        missing = [node for node in undefined(subject) if node.id not in imports(subject) and node.id not in MODULES]
        if not missing:
            return
        first, others = missing[0], [f"{node.id} (line {node.lineno})" for node in missing[1:5]]
        yield self.hit(
            subject.span(first),
            f"{first.id} is defined nowhere in this file: Python raises NameError when the line runs, which in a "
            "training program is often after the model was loaded on every rank"
            + (f"; so are {', '.join(others)}" if others else ""),
            f"define or import {first.id}, or take it as an argument",
        )
