"""Kinds: where each Kubernetes kind keeps its pod templates, how many pods it starts and whether it ends.

Reads ``kinds.json`` on first use. Linter and targets both use it; it must not know YAML or rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from trainwright.facts.data import read_rows

Runs = Literal["once", "forever", "template", ""]


@dataclass(frozen=True)
class PodPath:
    """Pod templates at ``template`` (a dotted path; "" is the object itself) below the object, or below each entry of
    the list or map ``each``. The number of pods is the product of the integers at ``count``."""

    template: tuple[str, ...]
    each: tuple[str, ...] = ()
    count: tuple[tuple[str, ...], ...] = ()
    name: tuple[str, ...] = ()
    role: str = ""


@dataclass(frozen=True)
class Kind:
    """One kind of one API group."""

    name: str
    group: str
    pods: tuple[PodPath, ...] = ()
    runs: Runs = ""
    scope: Literal["namespace", "cluster"] = "namespace"


@cache
def get(kind: str, group: str) -> Kind | None:
    """The kind ``kind`` of API group ``group`` ("" for the core group), or None when it is not in the table."""
    row = read_rows("kinds").get(f"{kind}.{group}")
    if row is None:
        return None
    pods = tuple(
        PodPath(
            _path(p["template"]),
            _path(p.get("each", "")),
            tuple(map(_path, p.get("count", ()))),
            _path(p.get("name", "")),
            p.get("role", ""),
        )
        for p in row.get("pods", ())
    )
    return Kind(kind, group, pods, row.get("runs", ""), row.get("scope", "namespace"))


def names() -> list[str]:
    """Every known kind as ``Kind.group``."""
    return list(read_rows("kinds"))


def _path(dotted: str) -> tuple[str, ...]:
    return tuple(part for part in dotted.split(".") if part)
