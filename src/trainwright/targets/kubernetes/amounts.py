"""What nodes have against what a pod asks for: whether it can ever fit, and who has what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainwright.targets.kubernetes.cluster import Object

_UNITS = {
    "": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}  # fmt: skip


@dataclass(frozen=True)
class Room:
    """``never`` is True when no node is large enough, whatever else runs."""

    never: bool
    sentence: str
    next_step: str


def closed(
    nodes: Sequence[Object], selector: Mapping[str, str], tolerations: Sequence[Mapping[str, object]]
) -> str | None:
    """What closes every node that a pod's labels mean, in the scheduler's words; None when something else does.

    The scheduler counts all nodes of the cluster and asks for taints before labels, so that its message hides which
    nodes were meant.
    """
    meant = [one for one in nodes if has_labels(one, selector)]
    if not meant:
        return None
    cordoned = [one for one in meant if (one.get("spec") or {}).get("unschedulable")]
    if len(cordoned) == len(meant):
        return f"{len(meant)} node(s) were unschedulable"
    taints = [taint for one in meant if one not in cordoned and (taint := untolerated(one, tolerations)) is not None]
    if len(taints) + len(cordoned) < len(meant):
        return None
    first = taints[0]
    return f"{len(meant)} node(s) had untolerated taint {{{first.get('key')}: {first.get('value') or ''}}}"


def has_labels(node: Object, selector: Mapping[str, str]) -> bool:
    """Whether a node carries all labels of a selector."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    return all(labels.get(name) == value for name, value in selector.items())


def untolerated(node: Object, tolerations: Sequence[Mapping[str, object]]) -> Mapping[str, object] | None:
    """The first taint of a node that keeps pods with these tolerations away."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not any(_tolerates(one, taint) for one in tolerations):
            found: Mapping[str, object] = taint
            return found
    return None


def _tolerates(toleration: Mapping[str, object], taint: Mapping[str, object]) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    if effect and effect != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return key in (None, "", taint.get("key"))
    return key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def quantity(text: object) -> float:
    """``500m``, ``32Gi``, ``8`` as a number; 0 for anything else."""
    value = str(text)
    for unit in sorted(_UNITS, key=len, reverse=True):
        if unit and value.endswith(unit):
            value, factor = value[: -len(unit)], _UNITS[unit]
            break
    else:
        factor = 1.0
    try:
        return float(value) * factor
    except ValueError:
        return 0.0


def room(resource: str, wanted: int | None, nodes: Sequence[Object], holders: Mapping[str, int]) -> Room | None:
    """What the nodes' sizes say about a resource; None when they say nothing new.

    ``wanted`` is what one pod asks for, ``holders`` how much of it other runs hold, by name.
    """
    have = [
        (quantity((one.get("status") or {}).get("allocatable", {}).get(resource, "0")), one)
        for one in nodes
        if not (one.get("spec") or {}).get("unschedulable")
    ]
    with_it = [(amount, one) for amount, one in have if amount > 0]
    if "/" not in resource:
        return None
    if not with_it:
        text = f"No node of the cluster offers {resource}"
        return Room(True, text, f"add nodes with {resource}, and check that its device plugin runs on them")
    largest = max(amount for amount, _ in with_it)
    if wanted is not None and largest < wanted:
        text = f"A pod asks for {wanted} {resource}, but the largest node has {largest:.0f}"
        return Room(True, text, "lower compute.processes_per_node, or name an instance type with more")
    total = sum(amount for amount, _ in with_it)
    held = sorted(((count, name) for name, count in holders.items() if count), reverse=True)
    if not held:
        return None
    by = ", ".join(f"{name} ({count})" for count, name in held[:3])
    return Room(False, f"{sum(count for count, _ in held)} of {total:.0f} are used by {by}", "")
