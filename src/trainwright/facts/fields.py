"""Field trees: which fields a Kubernetes kind has, their types, allowed texts and required ones.

Reads ``fields.json`` (derived by ``benchmarks/derive_field_trees.py``) on first use. It must not know YAML or rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from trainwright.facts.data import read_file


@dataclass(frozen=True, slots=True)
class Shape:
    """One node of a tree: a scalar type ("string", "integer", "number", "boolean", "scalar": number or text, "any"),
    or a mapping with known fields, a mapping with free keys, a list, or one of some texts."""

    _row: Any

    @property
    def scalar(self) -> str:
        """The scalar type; "" for anything else. An enumeration is a "string"."""
        if isinstance(self._row, str):
            return self._row
        return "string" if "e" in self._row else ""

    @property
    def enum(self) -> tuple[str, ...]:
        """The texts that are allowed; () when any is."""
        return () if isinstance(self._row, str) else tuple(self._row.get("e", ()))

    @property
    def is_object(self) -> bool:
        """A mapping whose fields are known."""
        return not isinstance(self._row, str) and "f" in self._row

    @property
    def closed(self) -> bool:
        """Whether other fields than the known ones are refused."""
        return self.is_object and not self._row.get("o")

    @property
    def fields(self) -> Mapping[str, Shape]:
        """Fields by name."""
        return {} if not self.is_object else {name: _shape(number) for name, number in self._row["f"].items()}

    @property
    def required(self) -> tuple[str, ...]:
        """Fields that must be there."""
        return tuple(self._row.get("r", ())) if self.is_object else ()

    @property
    def items(self) -> Shape | None:
        """The shape of a list's elements; None when it is no list."""
        return None if isinstance(self._row, str) or "l" not in self._row else _shape(self._row["l"])

    @property
    def values(self) -> Shape | None:
        """The shape of the values of a mapping with free keys."""
        return None if isinstance(self._row, str) or "m" not in self._row else _shape(self._row["m"])

    def field(self, name: str) -> Shape | None:
        """One field, None when there is none of that name."""
        number = self._row["f"].get(name) if self.is_object else None
        return None if number is None else _shape(number)


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of one kind: ``component`` and ``version`` say what it was read from."""

    shape: Shape
    component: str
    version: str


@cache
def tree(kind: str, group: str, version: str) -> Tree | None:
    """The tree of a kind of an API group and version, None when it is not in the facts."""
    row = read_file("fields")["rows"].get(f"{kind}.{group}/{version}")
    return None if row is None else Tree(_shape(row["shape"]), row["component"], row["version"])


@cache
def _shape(number: int) -> Shape:
    return Shape(read_file("fields")["shapes"][number])
