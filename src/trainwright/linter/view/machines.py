"""On which machines a group of pods can run: by its own selectors, else by the node pools that accept it.

Takes a PodGroup and the project; gives ``facts.instances`` values. An unknown type gives nothing, never an error.
"""

from __future__ import annotations

from trainwright.errors import InputError
from trainwright.facts import instances, node_types
from trainwright.facts.machines import Instance
from trainwright.facts.node_types import NodeType
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.values import Known
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import PodGroup

INSTANCE_LABEL = "node.kubernetes.io/instance-type"


def instance(name: str) -> Instance | None:
    """The instance type of that name, or None when it is not in the facts."""
    try:
        return instances.get(name)
    except InputError:
        return None


def pool_requirement(pool: KubernetesObject, key: str) -> list[Known[str]] | None:
    """Values that a NodePool's requirements allow for a label (operator In); None when they do not say."""
    for requirement in pool.get("spec", "template", "spec", "requirements").elements():
        if requirement.get("key").string == key and requirement.get("operator").string == "In":
            return [Known(v.string, v.span) for v in requirement.get("values").elements() if v.string]
    return None


def accepts(pool: KubernetesObject, group: PodGroup) -> bool:
    """Whether a NodePool could make a node for these pods: taints tolerated, and no label that contradicts."""
    template = pool.get("spec", "template")
    for taint in template.get("spec", "taints").elements():
        key, effect = taint.get("key").string, taint.get("effect").string
        if (
            key
            and effect in ("NoSchedule", "NoExecute")
            and not group.tolerates(key, effect, taint.get("value").string)
        ):
            return False
    for selected, value in group.spec.get("nodeSelector").pairs():
        allowed = pool_requirement(pool, selected.raw)
        label = template.get("metadata", "labels", selected.raw)
        if value.string is None:
            continue
        if allowed is not None and value.string not in {known.value for known in allowed}:
            return False
        if allowed is None and label.string is not None and label.string != value.string:
            return False
    return True


def machine_names(job: TrainingJob, group: PodGroup, project: Project) -> list[Known[str]]:
    """Names of the instance types the pods may land on, each with the place that says so: the pods' own selectors
    first, else the NodePools that accept them. [] when nothing says so."""
    names = list(group.instance_types)
    if names:
        return names
    for pool in project.related(job.document, "NodePool"):
        if accepts(pool, group):
            allowed = pool_requirement(pool, INSTANCE_LABEL)
            if allowed is None:
                return []
            names.extend(allowed)
    return names


def machines(job: TrainingJob, group: PodGroup, project: Project) -> list[tuple[Known[str], Instance]]:
    """``machine_names`` as the planner's instances; [] when a type is not in the facts."""
    found = [(name, instance(name.value)) for name in machine_names(job, group, project)]
    return [(name, known) for name, known in found if known is not None] if all(known for _, known in found) else []


def types(job: TrainingJob, group: PodGroup, project: Project) -> list[tuple[Known[str], NodeType]]:
    """``machine_names`` as node types, older ones included; [] when a type is not in the facts."""
    found = [(name, node_types.get(name.value)) for name in machine_names(job, group, project)]
    return [(name, known) for name, known in found if known is not None] if all(known for _, known in found) else []
