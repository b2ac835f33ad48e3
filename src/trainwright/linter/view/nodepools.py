"""Karpenter NodePools and NodeClasses as the scheduler sees them: types, labels, durations, who accepts whom.

Takes KubernetesObjects of kind NodePool; gives plain values. What a template or another operator decides is unknown.
"""

from __future__ import annotations

import re

from trainwright.facts import node_types
from trainwright.facts.node_types import NodeType
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.values import Known
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.machines import INSTANCE_LABEL, accepting, pool_requirement
from trainwright.linter.view.pods import PodGroup

CAPACITY = "karpenter.sh/capacity-type"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
_GPU_KEYS = ("karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-count",
             "karpenter.k8s.aws/instance-gpu-manufacturer", "karpenter.k8s.aws/instance-accelerator-name",
             "karpenter.k8s.aws/instance-accelerator-count")  # fmt: skip
_FAMILIES = re.compile(r"^(p\d|g[3-9]|trn|inf|dl)")
_UNIT = {"h": 1.0, "m": 1 / 60, "s": 1 / 3600}


def hours(node: Node) -> float | None:
    """A duration ("720h", "1h30m") in hours, infinite for "Never"; None when it is missing or unknown."""
    text = node.string
    if text is None:
        return None
    if text == "Never":
        return float("inf")
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNIT[unit] for number, unit in parts)


def pool_types(pool: KubernetesObject) -> list[tuple[Known[str], NodeType]]:
    """Instance types that a pool lists and that the facts know."""
    found = pool_requirement(pool, INSTANCE_LABEL) or []
    return [(name, known) for name in found for known in [node_types.get(name.value)] if known is not None]


def pool_accelerated(pool: KubernetesObject) -> bool:
    """Whether a pool is for accelerators: by its types, families, GPU requirements, taints or limits."""
    known: bool | None = pool.found.get("accelerated")
    if known is None:
        known = pool.found["accelerated"] = _is_accelerated(pool)
    return known


def _is_accelerated(pool: KubernetesObject) -> bool:
    if any(known.count for _, known in pool_types(pool)):
        return True
    spec = pool.get("spec", "template", "spec")
    for requirement in spec.get("requirements").elements():
        key = requirement.get("key").string or ""
        operator = requirement.get("operator").string
        values = [value.string or "" for value in requirement.get("values").elements()]
        if key in _GPU_KEYS and operator in ("In", "Exists", "Gt"):
            return True
        named = key.endswith(("instance-family", "instance-category", INSTANCE_LABEL)) and operator == "In"
        if named and values and all(_FAMILIES.match(value) or value in ("p", "trn") for value in values):
            return True
    return any(
        key.raw.startswith(("nvidia.com/", "aws.amazon.com/neuron")) for key, _ in pool.get("spec", "limits").pairs()
    )


def node_class(pool: KubernetesObject, project: Project) -> KubernetesObject | None:
    """The EC2NodeClass of a pool, when the project holds it."""
    reference = pool.get("spec", "template", "spec", "nodeClassRef")
    return project.find(pool, "EC2NodeClass", reference.get("name").string)


def pools_of(node_class_object: KubernetesObject, project: Project) -> list[KubernetesObject]:
    """NodePools that use an EC2NodeClass."""
    return [
        pool
        for pool in project.related(node_class_object, "NodePool")
        if pool.get("spec", "template", "spec", "nodeClassRef", "name").string == node_class_object.object_name
        and node_class_object.object_name is not None
    ]


def taints(pool: KubernetesObject) -> set[tuple[str, str, str]]:
    """A pool's taints as (key, value, effect)."""
    return {
        (t.get("key").string or "", t.get("value").string or "", t.get("effect").string or "")
        for t in pool.get("spec", "template", "spec", "taints").elements()
    }


def decided_elsewhere(pool: KubernetesObject) -> bool:
    """Whether a template decides part of what the pool accepts."""
    known: bool | None = pool.found.get("templated")
    if known is None:
        known = pool.found["templated"] = _is_templated(pool)
    return known


def _is_templated(pool: KubernetesObject) -> bool:
    spec = pool.get("spec", "template", "spec")
    return any(
        node.unknown or node.open for node in (pool.get("spec"), spec, spec.get("requirements"), spec.get("taints"))
    )


_SPOT = (
    (CAPACITY, "spot"), ("eks.amazonaws.com/capacityType", "SPOT"), ("node.kubernetes.io/lifecycle", "spot"),
    ("cloud.google.com/gke-spot", "true"), ("kubernetes.azure.com/scalesetpriority", "spot"),
)  # fmt: skip


def on_spot(job: TrainingJob, group: PodGroup, project: Project) -> Known[str] | None:
    """The place that puts these pods on interruptible capacity; None when nothing certainly does. Karpenter prefers
    spot to on-demand wherever a pool allows both."""
    for label, value in _SPOT:
        chosen = group.selected(label)
        if chosen:
            return chosen[0] if {known.value for known in chosen} == {value} else None
    allowed = [pool_requirement(pool, CAPACITY) or [] for pool in accepting(job, group, project)]
    spots = [next((known for known in values if known.value == "spot"), None) for values in allowed]
    return spots[0] if spots and all(spot is not None for spot in spots) else None
