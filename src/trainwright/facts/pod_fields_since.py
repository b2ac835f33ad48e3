"""Since: which release of Kubernetes was the first to have a field of a pod.

Reads ``pod_fields_since.json`` on first use. It must not know who asks for which field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.facts.data import read_file
from trainwright.facts.versions import parts


def lacking(template: Any, version: str) -> Iterator[tuple[str, str]]:
    """Fields of a pod or pod template that ``version`` of Kubernetes does not have, each with the first that does."""
    for path, since in read_file("pod_fields_since")["rows"].items():
        if parts(version) < parts(since) and _has(template, tuple(path.split("."))):
            yield path, since


def _has(value: Any, path: tuple[str, ...]) -> bool:
    if isinstance(value, list):
        return any(_has(item, path) for item in value)
    if not path:
        return True
    return isinstance(value, dict) and path[0] in value and _has(value[path[0]], path[1:])
