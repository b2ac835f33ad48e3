"""A Kubernetes object against the field tree of its kind: where the two part.

Takes an object; gives Departures. What a template may add, and what the tree leaves open, departs from nothing. It
must not know how bad a departure is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from trainwright.facts import fields
from trainwright.facts.fields import Shape, Tree
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project

_MAX_DEPTH = 40


@dataclass(frozen=True, eq=False)
class Departure:
    """One place where an object is not as its tree says. ``node`` is the key of an unknown field, the value of a
    wrong one, and the mapping that lacks a required one; ``name`` is the field; ``path`` leads to it."""

    kind: Literal["unknown", "missing", "value", "type"]
    node: Node
    name: str
    path: tuple[str, ...]
    shape: Shape
    tree: Tree


@lru_cache(maxsize=4096)
def departures(found: KubernetesObject) -> tuple[Departure, ...]:
    """Every departure of one object, in order; () when its kind is not in the facts."""
    tree = fields.tree(found.kind, found.group, found.version)
    if tree is None or found.node.unknown:
        return ()
    return tuple(_compare(found.node, tree.shape, (), tree, 0))


def _compare(node: Node, shape: Shape, path: tuple[str, ...], tree: Tree, depth: int) -> Iterator[Departure]:
    if node.unknown or not node.exists or depth > _MAX_DEPTH or shape.scalar == "any":
        return
    name = path[-1] if path else ""
    if shape.is_object:
        if node.type != "mapping":
            yield Departure("type", node, name, path, shape, tree)
            return
        yield from _fields(node, shape, path, tree, depth)
    elif shape.items is not None:
        if node.type != "sequence":
            yield Departure("type", node, name, path, shape, tree)
            return
        for element in node.elements():
            yield from _compare(element, shape.items, path, tree, depth + 1)
    elif shape.values is not None:
        if node.type != "mapping":
            yield Departure("type", node, name, path, shape, tree)
            return
        for key, value in node.pairs():
            yield from _compare(value, shape.values, (*path, key.raw), tree, depth + 1)
    elif not _fits(node, shape.scalar):
        yield Departure("type", node, name, path, shape, tree)
    elif shape.enum and node.string is not None and node.string not in shape.enum:
        yield Departure("value", node, name, path, shape, tree)


def _fields(node: Node, shape: Shape, path: tuple[str, ...], tree: Tree, depth: int) -> Iterator[Departure]:
    for key, value in node.pairs():
        own = shape.field(key.raw)
        if own is not None:
            yield from _compare(value, own, (*path, key.raw), tree, depth + 1)
        elif shape.closed and not key.unknown and key.raw != "<<":
            yield Departure("unknown", key, key.raw, path, shape, tree)
    for name in shape.required:
        # An empty list or mapping is there; null counts as missing, and a template may add the field.
        if node.get(name).absent and not node.open:
            yield Departure("missing", node, name, path, shape, tree)


def _fits(node: Node, scalar: str) -> bool:
    """Whether a scalar has the type that the API server demands."""
    if scalar == "string":
        return node.type == "str"
    if scalar == "integer":
        return node.type == "int" or (node.type == "float" and node.number is not None and node.number.is_integer())
    if scalar == "number":
        return node.type in ("int", "float")
    if scalar == "boolean":
        return node.type == "bool"
    return node.type in ("str", "int", "float")


@lru_cache(maxsize=2)
def _kustomized(project: Project) -> tuple[str, ...]:
    """Folders that hold a kustomization."""
    split = (file.path.rpartition("/") for file in project.files)
    return tuple(place + "/" for place, _, name in split if name.lower().startswith("kustomization."))


def is_fragment(found: KubernetesObject, project: Project) -> bool:
    """Whether the document is a patch for another object, or is completed by a kustomization, rather than whole."""
    path = found.path.lower()
    if found.kind == "Pod" and "template" in path.rpartition("/")[2]:
        return True  # Spark completes the pod templates of its drivers and executors.
    if "patch" in path or "override" in path or found.templated or found.namespace == "system":
        return True
    folder = found.path.rpartition("/")[0] + "/"
    if any(folder.startswith(place) for place in _kustomized(project)):
        return True
    if "$patch" not in found.text.content:
        return False
    return any(key.raw == "$patch" for node in found.node.walk() for key, _ in node.pairs())


def elsewhere(tree: Tree, name: str) -> tuple[str, ...]:
    """The shortest path at which the kind has a field of that name; () when it has none."""
    level: list[tuple[tuple[str, ...], Shape]] = [((), tree.shape)]
    seen: set[int] = set()
    for _ in range(12):
        following: list[tuple[tuple[str, ...], Shape]] = []
        for path, shape in level:
            inner = shape.items or shape.values
            while inner is not None and (inner.items or inner.values) is not None:
                inner = inner.items or inner.values
            shape = inner or shape
            if not shape.is_object or id(shape) in seen:
                continue
            seen.add(id(shape))
            for own, below in shape.fields.items():
                if own == name:
                    return (*path, own)
                following.append(((*path, own), below))
        level = following
    return ()
