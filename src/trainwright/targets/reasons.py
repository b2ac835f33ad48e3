"""From a scheduler's or library's message to one sentence, and from several messages to the one that counts.

Takes text and the name of the system that wrote it; gives ``Match`` values and ``Reason``. Pure: it asks no
scheduler and reads no log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from trainwright.facts.reasons import Entry, entries
from trainwright.runs.state import Reason, ReasonClass, ended

_FREE_TEXT = ("why", "why2", "checks", "reasons")  # groups that may bring a full stop of their own
#: Slurm names what ran out in its own words.
_SLURM_RESOURCES = {
    "GRES": "GPUs", "Mem": "memory", "Memory": "memory", "Node": "nodes", "Cpu": "CPUs", "CPU": "CPUs",
    "CpuNotSatisfied": "CPUs", "BB": "burst buffer", "License": "licences", "Energy": "energy",
    "Billing": "billing units", "Jobs": "running jobs", "SubmitJobs": "submitted jobs",
    "SubmitJob": "submitted jobs", "Wall": "run time", "WallDuration": "run time", "Unknown": "some resource",
    "JOB": "job", "STEP": "step",
}  # fmt: skip


@dataclass(frozen=True)
class Match:
    """A message that is known. ``state`` and ``role`` are those of its entry; ``groups`` what the pattern caught."""

    entry: Entry
    reason: Reason
    groups: dict[str, str]

    @property
    def role(self) -> str:
        """cause, symptom, wrapper or info."""
        return self.entry.role

    @property
    def state(self) -> str:
        """pending, starting, failed, preempted or cancelled."""
        return self.entry.state


def match(system: str, text: str, where: str = "") -> Match | None:
    """The first entry of a system that fits a message, or None. ``where`` must be a part of the entry's place."""
    for entry in entries(system):
        if where in entry.where and (found := entry.regex.search(text)):
            return _filled(entry, found, text)
    return None


def explain(system: str, text: str, where: str = "") -> Reason:
    """The reason a message gives; a message that is not known is shown as it is, with class unknown."""
    found = match(system, text, where)
    return found.reason if found else Reason(f"{system}-unknown", "unknown", ended(text.strip()), "", raw=text)


def scheduling(text: str) -> Match | None:
    """What counts in a kube-scheduler message, which lists a part for every kind of refusal.

    Parts about nodes that the job was never meant for (taints, labels) are dropped when another part is about
    resources or volumes. Counts are nodes, not devices.
    """
    body = re.split(r"\s*(?:preemption:|no new claims to deallocate)", text, maxsplit=1)[0]
    head, colon, list_ = body.partition("nodes are available: ")
    pieces = re.split(r", (?=\d+ )", list_) if colon else [head]
    found = [one for piece in pieces if (one := match("kube-scheduler", piece.strip().rstrip("."))) is not None]
    if not found:
        return match("kube-scheduler", body) or match("kube-scheduler", text)
    return min(found, key=lambda one: _rank(one.entry.id, _SCHEDULER_ORDER))


def provisioning(text: str, nodepool: str | None = None) -> Match | None:
    """What counts in a Karpenter message, which has one part for every NodePool.

    An EC2 code inside it comes first: an account quota arrives under the name of missing capacity.
    """
    code = match("ec2", text)
    if code is not None:
        return code
    parts = re.split(r"; (?=incompatible with nodepool|did not tolerate|no instance type|all available)", text)
    own = [part for part in parts if nodepool is not None and re.search(rf"\b{re.escape(nodepool)}\b", part)]
    found = [one for part in own or parts if (one := match("karpenter", part)) is not None]
    return min(found, key=lambda one: _rank(one.entry.id, _KARPENTER_ORDER), default=None)


def earliest_cause(found: Sequence[Match]) -> Match | None:
    """Of messages in order of time, the one that explains a failure.

    Hardware and lost nodes come before everything, preemption, time limits and cancels before exit codes, memory
    before ``Killed``; then causes before wrappers before symptoms. Information never explains anything.
    """
    real = [one for one in found if one.role != "info"]
    return min(real, key=lambda one: (_weight(one), _ROLES.index(one.role)), default=None)


def lines_of(system: str, lines: Iterable[str], where: str = "") -> list[Match]:
    """Every line that is known, in order."""
    return [found for line in lines if (found := match(system, line, where)) is not None]


_ROLES = ("cause", "wrapper", "symptom", "info")
#: Claims > device claims > devices > cpu, memory, disk > pods > volumes > spread and affinity > unhealthy nodes >
#: labels > taints > cordoned. What is not listed stands between affinity and unhealthy nodes.
_SCHEDULER_ORDER = (
    ("pvc-", 0), ("volume-bind", 0), ("rwop", 0), ("dra", 1), ("insufficient-device", 2), ("insufficient-basic", 3),
    ("too-many-pods", 4), ("volume-", 5), ("spread", 6), ("pod-a", 6), ("taint-node-health", 8), ("affinity", 9),
    ("nodename", 9), ("taint", 10), ("cordoned", 11), ("wrapper", 12),
)  # fmt: skip
_KARPENTER_ORDER = (
    ("limits", 0), ("no-resources", 1), ("reserved", 2), ("no-offering", 2), ("no-type", 3), ("filter-other", 3),
    ("minvalues", 3), ("incompatible", 4), ("label", 4), ("volume", 4), ("topology", 4), ("taint", 5),
)  # fmt: skip


def _rank(id_: str, order: Sequence[tuple[str, int]]) -> int:
    name = id_.partition("-")[2]
    return next((rank for prefix, rank in order if name.startswith(prefix)), 7)


def _weight(one: Match) -> int:
    if one.role != "cause":
        return 4
    if one.reason.class_ in ("hardware", "node-lost"):
        return 0
    if one.state in ("preempted", "cancelled") or one.reason.class_ in ("timeout", "preempted"):
        return 1
    return 2 if one.reason.class_ == "oom" else 3


def _filled(entry: Entry, found: re.Match[str], text: str) -> Match:
    groups = {**entry.defaults, **{name: value for name, value in found.groupdict().items() if value is not None}}
    shown = {name: _shown(entry.system, name, value) for name, value in groups.items()}
    for name in found.groupdict():
        shown.setdefault(name, "")
    reason = Reason(
        id=entry.id,
        class_=cast(ReasonClass, entry.class_),
        sentence=ended(entry.sentence.format(**shown)),
        next_step=entry.next_step.format(**shown),
        retry=entry.retry,  # type: ignore[arg-type]  # the table's values are the literal's; tested
        raw=text.strip(),
    )
    return Match(entry, reason, groups)


def _shown(system: str, name: str, value: str) -> str:
    if system == "slurm" and name in ("res", "what"):
        return _SLURM_RESOURCES.get(value, value)
    return value.rstrip(". ") if name in _FREE_TEXT else value
