"""The condition under which a model is registered, such as ``eval_loss < baseline and arc >= 0.4``.

A tiny language read with Python's own parser and evaluated by walking it: names, numbers, comparisons,
``and``, ``or``, ``not``, and + - * / on numbers. Nothing else, and nothing is ever executed.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_MAX_LENGTH = 500


class GateError(ValueError):
    """The text is no condition, or cannot be decided with the metrics at hand."""


@dataclass(frozen=True)
class Gate:
    """A parsed condition. ``names`` are the metrics it reads."""

    text: str
    names: frozenset[str]
    tree: ast.expr

    def holds(self, metrics: Mapping[str, float]) -> bool:
        """Decide the condition; a metric that was not measured, or NaN, is a GateError, never a silent yes."""
        missing = sorted(self.names - set(metrics))
        if missing:
            raise GateError(f"{', '.join(missing)} was not measured")
        unusable = sorted(name for name in self.names if metrics[name] != metrics[name])
        if unusable:
            raise GateError(f"{', '.join(unusable)} is not a number")
        return bool(_decide(self.tree, metrics))


def parse_gate(text: str) -> Gate:
    """Read a condition; anything but comparisons of metrics and numbers is a GateError."""
    if len(text) > _MAX_LENGTH:
        raise GateError(f"has {len(text)} characters; at most {_MAX_LENGTH} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise GateError(f"{text!r} is no condition") from None
    _check(tree, condition=True)
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    if not names:
        raise GateError(f"{text!r} reads no metric")
    return Gate(text, names, tree)


def _check(node: ast.expr, condition: bool) -> None:
    """A condition is made of comparisons; a comparison is made of numbers."""
    if condition:
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                _check(value, condition=True)
            return
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            _check(node.operand, condition=True)
            return
        if isinstance(node, ast.Compare) and all(type(op) in _COMPARE for op in node.ops):
            for value in (node.left, *node.comparators):
                _check(value, condition=False)
            return
        raise GateError(f"{ast.unparse(node)!r} is no comparison")
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        _check(node.operand, condition=False)
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        _check(node.left, condition=False)
        _check(node.right, condition=False)
    elif not isinstance(node, ast.Name) and not _is_number(node):
        raise GateError(f"{ast.unparse(node)!r} is neither a metric nor a number")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _decide(node: ast.expr, metrics: Mapping[str, float]) -> Any:
    if isinstance(node, ast.BoolOp):
        results = [_decide(value, metrics) for value in node.values]
        return all(results) if isinstance(node.op, ast.And) else any(results)
    if isinstance(node, ast.Compare):
        values = [_decide(value, metrics) for value in (node.left, *node.comparators)]
        pairs = zip(node.ops, values[:-1], values[1:], strict=True)
        return all(_COMPARE[type(op)](left, right) for op, left, right in pairs)
    if isinstance(node, ast.UnaryOp):
        value = _decide(node.operand, metrics)
        return not value if isinstance(node.op, ast.Not) else -value
    if isinstance(node, ast.BinOp):
        left, right = _decide(node.left, metrics), _decide(node.right, metrics)
        try:
            return _ARITHMETIC[type(node.op)](left, right)
        except ZeroDivisionError:
            raise GateError(f"{ast.unparse(node)!r} divides by zero") from None
    return metrics[node.id] if isinstance(node, ast.Name) else node.value  # type: ignore[attr-defined]  # checked
