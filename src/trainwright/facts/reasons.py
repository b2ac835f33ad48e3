"""Reasons: messages of schedulers and libraries, each with its class, one sentence and one next step.

Reads ``reasons.json`` on first use and gives the entries of one system in their order of precedence. It must not
know how a message is found or which of several counts; that is ``targets.reasons``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property

from trainwright.facts.data import read_rows


@dataclass(frozen=True)
class Entry:
    """One message. ``where`` is the object, field or log it stands in; ``role`` is cause, symptom, wrapper or info.

    ``sentence`` and ``next_step`` are filled by ``str.format`` with the groups of ``pattern``; ``defaults`` is the
    text of groups that can be missing.
    """

    id: str
    system: str
    where: str
    pattern: str
    state: str
    class_: str
    role: str
    sentence: str
    next_step: str
    retry: str
    sample: str
    also: tuple[str, ...] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """The compiled pattern. Compiled on first use: a table has hundreds, a message meets few."""
        return re.compile(self.pattern)


@cache
def entries(system: str) -> tuple[Entry, ...]:
    """Every entry of a system (``slurm``, ``kube-scheduler``, ``nccl`` …), first match first; empty if unknown."""
    return tuple(
        Entry(
            id=id_,
            system=row["system"],
            where=row["where"],
            pattern=row["pattern"],
            state=row["state"],
            class_=row["class"],
            role=row["role"],
            sentence=row["sentence"],
            next_step=row["next_step"],
            retry=row["retry"],
            sample=row["sample"],
            also=tuple(row.get("also", ())),
            defaults=row.get("defaults", {}),
        )
        for id_, row in read_rows("reasons").items()
        if row["system"] == system
    )


def systems() -> list[str]:
    """Every system that has entries, in the file's order."""
    return list(dict.fromkeys(row["system"] for row in read_rows("reasons").values()))
