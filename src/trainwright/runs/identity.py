"""Run identity: the same content is the same run."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping

from trainwright.models.layout import Layout
from trainwright.spec.model import RunSpec

_RUN_ID = re.compile(r"(?P<base>[a-z0-9][a-z0-9-]*-[0-9a-f]{8})(?:\.(?P<again>[1-9]\d*))?")


def run_id(spec: RunSpec, layout: Layout, versions: Mapping[str, str]) -> str:
    """``<name>-<8 hex>`` of the resolved spec, the layout and the versions rendered for."""
    content = {"spec": spec.to_dict(), "layout": layout.to_dict(), "versions": dict(versions)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"{spec.name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def is_run_id(text: str) -> bool:
    """True for a well-formed run id, with or without the ``.2`` of ``--fresh``."""
    return _RUN_ID.fullmatch(text) is not None


def name_of(run: str) -> str:
    """The spec's name in a run id: ``x`` of ``x-0a1b2c3d.2``."""
    return run.partition(".")[0].rpartition("-")[0]


def fresh(base: str, existing: set[str]) -> str:
    """The next free id of the same content: ``x``, then ``x.2``, ``x.3``, …"""
    number = 2
    if base not in existing:
        return base
    while f"{base}.{number}" in existing:
        number += 1
    return f"{base}.{number}"


def newest(base: str, existing: set[str]) -> str | None:
    """The latest of the runs with this content, or None."""
    family = [name for name in existing if name == base or name.rpartition(".")[0] == base]
    return max(family, key=lambda name: int(name[len(base) + 1 :] or 1), default=None)


def kubernetes_name(run: str) -> str:
    """A run id as an object name: ``x.2`` becomes ``x-2``."""
    return run.replace(".", "-")
