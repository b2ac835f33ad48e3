"""Python files as rules see them: calls by full name, whatever the imports were called.

Takes a PythonDocument; gives Calls and imports with their places. It runs and imports nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from trainwright.linter.documents import PythonDocument
from trainwright.linter.text import Span

T = TypeVar("T")


def once_per_file(find: Callable[[PythonDocument], T]) -> Callable[[PythonDocument], T]:
    """A finder that keeps its answer with the file, for as long as the file itself is kept."""

    @wraps(find)
    def remembered(document: PythonDocument) -> T:
        if find.__name__ not in document.found:
            document.found[find.__name__] = find(document)
        answer: T = document.found[find.__name__]
        return answer

    return remembered


@dataclass(frozen=True)
class Call:
    """One call. ``name`` is the full dotted name ("torch.load"), "" when it is computed; a method of an unknown
    object begins with a dot (".backward")."""

    name: str
    node: ast.Call
    document: PythonDocument

    @property
    def span(self) -> Span:
        """The called name, without the arguments."""
        return self.document.span(self.node.func)

    def keyword(self, name: str) -> ast.expr | None:
        """The value of a keyword argument."""
        return next((k.value for k in self.node.keywords if k.arg == name), None)

    def has_star(self) -> bool:
        """Whether ``**kwargs`` may add keywords."""
        return any(k.arg is None for k in self.node.keywords)

    def argument(self, position: int, keyword: str) -> ast.expr | None:
        """An argument by position or keyword."""
        found = self.keyword(keyword)
        if (
            found is None
            and position < len(self.node.args)
            and not any(isinstance(a, ast.Starred) for a in self.node.args)
        ):
            return self.node.args[position]
        return found


def literal(node: ast.expr | None) -> object:
    """The constant that an expression is; None for anything else."""
    return node.value if isinstance(node, ast.Constant) else None


@once_per_file
def nodes(document: PythonDocument) -> tuple[ast.AST, ...]:
    """Every node of the file, as ``ast.walk`` gives them."""
    return tuple(ast.walk(document.tree))


@once_per_file
def imports(document: PythonDocument) -> dict[str, str]:
    """Local name → full dotted name, for every import anywhere in the file."""
    found: dict[str, str] = {}
    for node in nodes(document):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """The full name of ``a.b.c`` through imports; ".c" for an attribute of something computed."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(names.get(node.id, node.id))
        return ".".join(reversed(parts))
    return "." + parts[0] if parts else ""


@once_per_file
def calls(document: PythonDocument) -> tuple[Call, ...]:
    """Every call of the file, in order."""
    names = imports(document)
    found = [Call(dotted(n.func, names), n, document) for n in nodes(document) if isinstance(n, ast.Call)]
    return tuple(sorted(found, key=lambda call: (call.node.lineno, call.node.col_offset)))


def calls_of(document: PythonDocument, *names: str) -> Iterator[Call]:
    """Calls whose full name is, or for names that begin with "." ends in, one of these."""
    for call in calls(document):
        if call.name in names or any(name.startswith(".") and call.name.endswith(name) for name in names):
            yield call


@once_per_file
def imported(document: PythonDocument) -> frozenset[str]:
    """Full names of everything that is imported: ``import a.b`` gives a.b, ``from a import b`` gives a.b."""
    plain = {a.name for n in nodes(document) if isinstance(n, ast.Import) for a in n.names}
    return frozenset(plain | set(imports(document).values()))


def imports_module(document: PythonDocument, module: str) -> bool:
    """Whether the file imports a module or something from it."""
    return any(name == module or name.startswith(module + ".") for name in imported(document))
