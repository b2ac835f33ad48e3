"""TW844: a NameError that waits until the line is reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument, PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import imports, nodes
from trainwright.linter.view.undefined import MODULES


class ModuleNeverImported(PythonRule):
    """``math.cos`` needs ``import math``."""

    id = "TW844"
    severity = "error"
    category = "frameworks"
    summary = "a module that is used and never imported"
    evidence = "reproduced"
    source = "Python language reference: a name that is bound nowhere raises NameError; reproduced"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Names of modules that nothing binds."""
        if isinstance(subject.holder, ConfigDocument):
            return  # Part of a Helm chart's Python: the chart's own file imports around it.
        bound = set(imports(subject))
        for node in nodes(subject):
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                return
            if isinstance(node, ast.Import | ast.ImportFrom):
                bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
                bound.add(node.id)
            elif isinstance(node, ast.arg):
                bound.add(node.arg)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
                bound.add(node.name or "")
            elif isinstance(node, ast.Global):
                bound |= set(node.names)
            elif isinstance(node, ast.Name) and node.id in ("globals", "exec", "get_ipython"):
                return
        seen: set[str] = set()
        for node in nodes(subject):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            name = node.value.id
            if name in MODULES and name not in bound and name not in seen:
                seen.add(name)
                yield self.hit(
                    subject.span(node.value),
                    f"{name} is used here and imported nowhere in this file: Python raises NameError when the line "
                    f"runs",
                    MODULES[name],
                    severity="note" if subject.holder is not None or subject.path.endswith((".md", ".mdx")) else None,
                )
