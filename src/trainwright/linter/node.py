"""Node: a YAML or JSON value that knows where it stands and never raises, whatever shape the input has.

Rules walk it with ``get``: a missing step gives an absent Node, which has a place (the parent's key) but no value. A
scalar that a template fills in, or a key that a template might add, is *unknown*. Must not know kinds or rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from trainwright.linter.text import PLACEHOLDER, Span, Text, align
from trainwright.linter.values import Absent, Known, Unknown, Value
from trainwright.linter.values import integer as parse_integer
from trainwright.linter.values import quantity as parse_quantity

Scalar = str | int | float | bool | None
Type = Literal["mapping", "sequence", "str", "int", "float", "bool", "null", "absent", "unknown"]

# Values that envsubst, Jinja or a human fills in before the file is used. `$(VAR)` is not one: Kubernetes expands it.
_FILLED_LATER = re.compile(
    r"\$\{?[A-Za-z_]\w*|\{\{|\{%|<[A-Za-z][\w -]*>|%\([A-Za-z_]\w*\)s|@@?[A-Z_]{3,}@@?|__[A-Z][A-Z_]+__"
)


class Node:
    """One value. ``key`` is the Node of the key that leads to it, if any. Do not construct it in rules."""

    __slots__ = (
        "_children",
        "_lookup",
        "_none",
        "duplicates",
        "end",
        "key",
        "open",
        "plain",
        "scalar",
        "start",
        "text",
        "type",
    )

    def __init__(self, text: Text, start: int, end: int, type_: Type, scalar: Scalar = None, *, plain: bool = False):
        self.text = text
        self.start = start
        self.end = end
        self.type: Type = type_
        self.scalar = scalar
        self.plain = plain
        self.key: Node | None = None
        self.open = False
        self.duplicates: list[Node] = []
        self._children: list[tuple[Node | None, Node]] = []
        self._lookup: dict[str | int, Node] | None = None
        self._none: Node | None = None

    # -- building (readers only) -------------------------------------------------------------------------------------

    def add(self, key: Node | None, value: Node) -> None:
        """Append a pair (mapping) or an element (sequence, ``key`` None)."""
        self._children.append((key, value))
        self._lookup = self._none = None

    # -- place -------------------------------------------------------------------------------------------------------

    @property
    def span(self) -> Span:
        """The value's own characters."""
        return Span(self.text, self.start, self.end)

    @property
    def mark(self) -> Span:
        """Where a finding about this node points: a scalar itself, the key of a mapping, sequence or
        missing value.
        """
        if self.type in ("mapping", "sequence", "null", "absent") and self.key is not None:
            return self.key.span
        if self.type in ("mapping", "sequence") and self._children:
            first = self._children[0][0] or self._children[0][1]
            return first.span if first is not self else Span(self.text, self.start, self.start + 1)
        return self.span

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Something is written here (null counts as nothing)."""
        return self.type not in ("absent", "null") and not (self.type == "unknown" and self.start == self.end)

    @property
    def absent(self) -> bool:
        """Nothing is written here, and no template could add it."""
        return self.type in ("absent", "null")

    @property
    def unknown(self) -> bool:
        """A template decides it."""
        return self.type == "unknown"

    # -- structure ---------------------------------------------------------------------------------------------------

    def get(self, *path: str | int) -> Node:
        """The node at a path of keys and indices; an absent (or unknown) Node when any step is missing."""
        node = self
        for step in path:  # Written out: this loop runs a million times for a thousand manifests.
            lookup = node._lookup
            if lookup is None:
                lookup = node._lookup = node._index()
            node = lookup.get(step) or node._none or node._missing()
        return node

    def _index(self) -> dict[str | int, Node]:
        """Values by key, or elements by index from either end."""
        if self.type == "mapping":
            return {str(key.raw): value for key, value in self._children if key is not None}
        if self.type == "sequence":
            count = len(self._children)
            return {n: self._children[n][1] for n in range(-count, count)}
        return {}

    def _missing(self) -> Node:
        """What every step to nothing leads to, made once: rules ask most objects for fields that they do not have."""
        if self._none is None:
            where = self.mark
            missing = Node(self.text, where.start, where.end, "unknown" if self.unknown or self.open else "absent")
            if missing.unknown:
                missing.end = missing.start
            missing.key = self.key
            self._none = missing
        return self._none

    def pairs(self) -> list[tuple[Node, Node]]:
        """Keys and values of a mapping, in order; [] for anything else."""
        return [(key, value) for key, value in self._children if key is not None] if self.type == "mapping" else []

    def keys(self) -> list[str]:
        """The keys of a mapping as strings; [] for anything else."""
        return [key.raw for key, _ in self.pairs()]

    def elements(self) -> list[Node]:
        """Elements of a sequence; [] for anything else."""
        return [value for _, value in self._children] if self.type == "sequence" else []

    def named(self, name: str) -> Node:
        """The element of a sequence of mappings whose ``name`` is ``name`` (containers, env, volumes)."""
        for element in self.elements():
            if element.get("name").string == name:
                return element
        return self._missing()

    def walk(self) -> Iterator[Node]:
        """This node and everything below it, each once, anchors and cycles included."""
        seen: set[int] = set()
        stack = [self]
        while stack:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            yield node
            stack.extend(value for _, value in reversed(node._children))

    # -- scalars -----------------------------------------------------------------------------------------------------

    @property
    def raw(self) -> str:
        """A scalar's text without quotes and escapes ("" for anything that is not a scalar)."""
        if isinstance(self.scalar, str):
            return self.scalar
        if self.type in ("int", "float", "bool", "null"):
            return self.text.content[self.start : self.end].strip()
        return ""

    @property
    def string(self) -> str | None:
        """The text of a scalar of any type, or None when it is missing, unknown, null or not a scalar."""
        return self.raw if self.type in ("str", "int", "float", "bool") else None

    @property
    def integer(self) -> int | None:
        """An integer, also when quoted; None otherwise."""
        if self.type == "int":
            return self.scalar if isinstance(self.scalar, int) else None
        return parse_integer(self.raw) if self.type == "str" else None

    @property
    def number(self) -> float | None:
        """An int or float (not a string); None otherwise."""
        return float(self.scalar) if self.type in ("int", "float") and isinstance(self.scalar, int | float) else None

    @property
    def boolean(self) -> bool | None:
        """A boolean, None otherwise."""
        return self.scalar if isinstance(self.scalar, bool) else None

    @property
    def quantity(self) -> float | None:
        """A Kubernetes quantity as a plain number ("500Gi" in bytes, "100m" in cores); None otherwise."""
        return parse_quantity(self.raw) if self.type in ("str", "int", "float") else None

    def as_string(self) -> Value[str]:
        """The string with its place."""
        if self.string is not None:
            return Known(self.string, self.span)
        return Unknown(self.mark, self.text.quote(self.start, self.end)) if self.unknown else Absent(self.mark)

    def as_integer(self) -> Value[int]:
        """The integer with its place; something written that is no integer is Unknown."""
        if self.integer is not None:
            return Known(self.integer, self.span)
        return Absent(self.mark) if self.absent else Unknown(self.mark, self.raw)

    def as_quantity(self) -> Value[float]:
        """The quantity with its place; something written that is no quantity is Unknown."""
        if self.quantity is not None:
            return Known(self.quantity, self.span)
        return Absent(self.mark) if self.absent else Unknown(self.mark, self.raw)

    def as_text(self, name: str = "") -> Text:
        """A multi-line scalar (a script, a values file) as a Text that maps back to this file."""
        return align(self.raw, self.text, self.start, self.end, name)


def absent_node(text: Text) -> Node:
    """An absent Node at the top of a text."""
    end = text.content.find("\n")
    return Node(text, 0, len(text.content) if end == -1 else end, "absent")


def filled_later(value: str) -> bool:
    """Whether a scalar holds a template placeholder."""
    return PLACEHOLDER in value or (
        ("$" in value or "{" in value or "<" in value or "_" in value or "@" in value or "%" in value)
        and bool(_FILLED_LATER.search(value))
    )
