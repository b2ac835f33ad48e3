"""Where a piece of Python stands: inside which loop, behind which question about the rank.

Takes a PythonDocument; gives parents, loops and guards of its nodes. It runs nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from trainwright.linter.documents import PythonDocument

_RANK = re.compile(
    r"(^|_)rank$|^is_(main|master|rank_?zero|local_main)(_process)?$|^(get_)?(global_|local_)?rank$", re.I
)


@lru_cache(maxsize=64)
def parents(document: PythonDocument) -> dict[ast.AST, ast.AST]:
    """The node around each node."""
    return {child: node for node in ast.walk(document.tree) for child in ast.iter_child_nodes(node)}


def around(document: PythonDocument, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around a node, innermost first, up to the function that holds it."""
    table = parents(document)
    current = table.get(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield current
        current = table.get(current)


def name_of(node: ast.AST) -> str:
    """The last name of ``a.b.c``, ``c`` or ``c()``; "" for anything else."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def one_rank_only(document: PythonDocument, node: ast.AST) -> ast.If | None:
    """The ``if`` that lets only one rank reach a node (``if rank == 0:``), when its other branch does not call the
    same thing. None when every rank gets there."""
    inner: ast.AST = node
    for outer in around(document, node):
        if isinstance(outer, ast.If) and _asks_for_one_rank(outer.test) and inner in outer.body:
            called = name_of(node)
            others = {name_of(n) for part in outer.orelse for n in ast.walk(part) if isinstance(n, ast.Call)}
            return None if called in others else outer
        inner = outer
    return None


def _asks_for_one_rank(test: ast.expr) -> bool:
    """``rank == 0``, ``dist.get_rank() == 0``, ``not rank``, ``is_main_process``, and any of them with ``and``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(_asks_for_one_rank(value) for value in test.values)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
        left, right = test.left, test.comparators[0]
        number = right.value if isinstance(right, ast.Constant) else None
        name = name_of(left).lower()
        return isinstance(number, int) and bool(_RANK.search(name)) and "local" not in name
    name = name_of(test).lower()
    return bool(re.match(r"^is_(main|master|rank_?zero|global_zero)(_process)?$", name))


def innermost_loop(document: PythonDocument, node: ast.AST) -> ast.For | ast.While | None:
    """The loop that repeats a node, within its function."""
    return next((outer for outer in around(document, node) if isinstance(outer, ast.For | ast.While)), None)


def assigned(document: PythonDocument, name: str) -> Iterator[ast.expr]:
    """Every expression that is assigned to a plain name."""
    for node in ast.walk(document.tree):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            yield node.value
