"""Operators: what brings a kind to a cluster, in which version it was proved, and how it is installed.

Reads ``operators.json`` on first use. It must not know what a cluster has.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainwright.facts.data import read_rows


@dataclass(frozen=True)
class Operator:
    """``install`` is the command; ``version`` the release that the suites ran with, else the newest known."""

    name: str
    group: str
    version: str
    install: str


def operator_of(group: str, kind: str = "") -> Operator | None:
    """The operator of an API group, or of one kind of it where several operators share the group; None: unknown."""
    rows = read_rows("operators")
    for key in (f"{kind}.{group}", group):
        if key in rows:
            row = rows[key]
            version = str(row["version"])
            return Operator(str(row["name"]), group, version, str(row["install"]).replace("{version}", version))
    return None
