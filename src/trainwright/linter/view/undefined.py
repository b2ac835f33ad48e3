"""Names of a Python file that nothing in it binds, and where each is first used.

Takes a PythonDocument; gives expressions. Scopes are not told apart: a name that any scope binds counts as bound, so
what is left raises NameError whenever its line runs.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.view.python import nodes

_GIVEN = frozenset(dir(builtins)) | {
    "__file__", "__name__", "__doc__", "__package__", "__spec__", "__path__", "__class__", "__annotations__",
    "WindowsError", "unicode", "xrange", "basestring", "raw_input", "long", "reload", "reduce", "unichr", "cmp",
    "file", "execfile", "reveal_type", "display", "get_ipython", "profile", "spark", "sc", "dbutils", "sqlContext",
    "snakemake", "c", "get_config", "_", "exit", "quit",
}  # fmt: skip
"""Builtins of Python 2 and 3, and what notebooks, profilers and configuration files are given from outside."""
MODULES = {
    name: f"import {name}" for name in ("math", "os", "sys", "json", "time", "re", "random", "shutil", "torch")
} | {
    "np": "import numpy as np",
    "dist": "import torch.distributed as dist",
}
"""Modules that training code uses by these names, with the import that is missing."""
_DYNAMIC = frozenset({"globals", "locals", "vars", "exec", "eval", "execfile", "load_subconfig", "get_ipython"})

_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)


def undefined(document: PythonDocument) -> list[ast.Name]:
    """The first use of each name that nothing binds, in order; [] when names may come from elsewhere."""
    bound: set[str] = set()
    used: dict[str, ast.Name] = {}
    annotations = {id(inner) for note in _annotations(document.tree) for inner in ast.walk(note)}
    for node in nodes(document):
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return []
        if isinstance(node, ast.ExceptHandler) and node.type is not None and "NameError" in ast.unparse(node.type):
            return []
        if isinstance(node, ast.Name) and node.id in _DYNAMIC:
            return []
        bound.update(_bound_by(node))
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in annotations:
            first = used.get(node.id)
            if first is None or (node.lineno, node.col_offset) < (first.lineno, first.col_offset):
                used[node.id] = node
    missing = [node for name, node in used.items() if name not in bound and name not in _GIVEN]
    return sorted(missing, key=lambda node: (node.lineno, node.col_offset))


def _bound_by(node: ast.AST) -> Iterator[str]:
    """Names that one node binds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, _NAMED) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    elif isinstance(node, ast.Global | ast.Nonlocal):
        yield from node.names


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Annotations: they need not be evaluated."""
    for node in ast.walk(tree):
        found: ast.expr | None = None
        if isinstance(node, ast.AnnAssign | ast.arg):
            found = node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found = node.returns
        if found is not None:
            yield found
