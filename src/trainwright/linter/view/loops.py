"""Where a piece of Python stands: inside which loop, behind which question about the rank.

Takes a PythonDocument; gives parents, loops and guards of its nodes. It runs nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.view.python import nodes, once_per_file

_RANK = re.compile(
    r"(^|_)rank$|^is_(main|master|rank_?zero|local_main)(_process)?$|^(get_)?(global_|local_)?rank$", re.I
)


@once_per_file
def parents(document: PythonDocument) -> dict[ast.AST, ast.AST]:
    """The node around each node."""
    return {child: node for node in nodes(document) for child in ast.iter_child_nodes(node)}


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
    """The ``if`` that lets only one rank reach a node: ``if rank == 0:`` around it, or ``if rank != 0: return``
    before it. None when every rank gets there, or when the others call the same thing somewhere in the function."""
    inner: ast.AST = node
    guard: ast.If | None = None
    for outer in around(document, node):
        if isinstance(outer, ast.If) and _asks_for_one_rank(outer.test) and inner in outer.body:
            guard = outer
            break
        if isinstance(outer, ast.If) and _asks_for_others(outer.test) and inner in outer.orelse:
            guard = outer
            break
        inner = outer
    guard = guard or _left_by_others(document, node)
    if guard is None or name_of(node) in _called_by_others(document, node):
        return None
    return guard


def _left_by_others(document: PythonDocument, node: ast.AST) -> ast.If | None:
    """An earlier ``if rank != 0: return`` of the same function, at its top level."""
    function = _function(document, node)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    line = getattr(node, "lineno", 0)
    for statement in function.body:
        if getattr(statement, "lineno", line) >= line:
            return None
        leaves = isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return) and not statement.orelse
        if isinstance(statement, ast.If) and leaves and _asks_for_others(statement.test):
            return statement
    return None


def _called_by_others(document: PythonDocument, node: ast.AST) -> set[str]:
    """What the function calls for other ranks: in ``else`` of a question for one rank, or behind one for them."""
    scope = _function(document, node) or document.tree
    found: set[str] = set()
    for part in ast.walk(scope):
        if isinstance(part, ast.If):
            others = part.body if _asks_for_others(part.test) else []
            branch = part.orelse if _asks_for_one_rank(part.test) else others
            found |= {name_of(n) for inner in branch for n in ast.walk(inner) if isinstance(n, ast.Call)}
    return found


def _function(document: PythonDocument, node: ast.AST) -> ast.AST | None:
    """The innermost function around a node."""
    table = parents(document)
    current = table.get(node)
    while current is not None and not isinstance(current, ast.FunctionDef | ast.AsyncFunctionDef):
        current = table.get(current)
    return current


def _asks_for_others(test: ast.expr) -> bool:
    """``rank != 0``, ``rank > 0``, ``not is_main_process``, ``rank``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks_for_one_rank(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq | ast.Gt | ast.GtE):
        return bool(_RANK.search(name_of(test.left).lower()))
    return bool(_RANK.search(name_of(test).lower())) and not _asks_for_one_rank(test)


def _asks_for_one_rank(test: ast.expr) -> bool:
    """``rank == 0``, ``dist.get_rank() == 0``, ``not rank``, ``is_main_process``, and any of them with ``and``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        name = name_of(test.operand).lower()
        return "rank" in name and "local" not in name and bool(_RANK.search(name)) and not name.startswith("is_")
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
    for node in nodes(document):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            yield node.value
