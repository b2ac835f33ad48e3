"""On which machines a group of pods can run: by its own selectors, else by the node pools that accept it.

Takes a PodGroup and the project; gives ``facts.instances`` values. An unknown type gives nothing, never an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

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
    return _pool(pool).allowed.get(key)


def untolerated_taint(pool: KubernetesObject, group: PodGroup) -> str:
    """The first taint of a pool that the pods do not tolerate, as "key=value:effect"; "" when there is none."""
    for key, value, effect in _pool(pool).taints:
        if not group.tolerates(key, effect, value):
            return f"{key}{'=' + value if value else ''}:{effect}"
    return ""


def accepts(pool: KubernetesObject, group: PodGroup) -> bool:
    """Whether a NodePool could make a node for these pods: taints tolerated, and no label that contradicts."""
    read = _pool(pool)
    known = group.found.get(read.likeness)  # pools often differ in nothing that pods can see
    if known is None:
        known = group.found[read.likeness] = not untolerated_taint(pool, group) and not _contradicts(read, group)
    return bool(known)


def contradicts(pool: KubernetesObject, group: PodGroup) -> bool:
    """Whether a node selector of the pods rules all nodes of a NodePool out, whatever its taints."""
    return _contradicts(_pool(pool), group)


def accepting(job: TrainingJob, group: PodGroup, project: Project) -> list[KubernetesObject]:
    """The NodePools that belong with a job and accept these pods of it."""
    if "accepting" not in group.found:
        pools = project.related(job.document, "NodePool")
        group.found["accepting"] = [pool for pool in pools if accepts(pool, group)]
    return list(group.found["accepting"])


def machine_names(job: TrainingJob, group: PodGroup, project: Project) -> list[Known[str]]:
    """Names of the instance types the pods may land on, each with the place that says so: the pods' own selectors
    first, else the NodePools that accept them. [] when nothing says so."""
    if "machine names" not in group.found:
        group.found["machine names"] = group.instance_types or _pool_machines(job, group, project)
    return list(group.found["machine names"])


def _pool_machines(job: TrainingJob, group: PodGroup, project: Project) -> list[Known[str]]:
    names: list[Known[str]] = []
    for pool in accepting(job, group, project):
        allowed = pool_requirement(pool, INSTANCE_LABEL)
        if allowed is None:
            return []
        names.extend(allowed)
    return names


@dataclass(frozen=True)
class _Pool:
    """What a NodePool says, read once."""

    taints: tuple[tuple[str, str | None, str], ...]
    allowed: Mapping[str, list[Known[str]]]
    labels: Mapping[str, str]

    @cached_property
    def likeness(self) -> str:
        """Equal for pools that accept the same pods. A string, because those remember their hash."""
        allowed = sorted((key, sorted(known.value for known in values)) for key, values in self.allowed.items())
        return repr((self.taints, allowed, sorted(self.labels.items())))


def _pool(pool: KubernetesObject) -> _Pool:
    known: _Pool | None = pool.found.get("pool")
    if known is None:
        known = pool.found["pool"] = _read_pool(pool)
    return known


def _read_pool(pool: KubernetesObject) -> _Pool:
    template = pool.get("spec", "template")
    taints = template.get("spec", "taints")
    repelling = [
        (taint.get("key").string or "", taint.get("value").string, taint.get("effect").string or "")
        for taint in taints.elements()
    ]
    allowed: dict[str, list[Known[str]]] = {}
    for requirement in template.get("spec", "requirements").elements():
        key = requirement.get("key").string
        if key and requirement.get("operator").string == "In":
            values = [Known(v.string, v.span) for v in requirement.get("values").elements() if v.string]
            allowed.setdefault(key, values)
    labels = {key.raw: value.string for key, value in template.get("metadata", "labels").pairs() if value.string}
    return _Pool(
        tuple(taint for taint in repelling if taint[0] and taint[2] in ("NoSchedule", "NoExecute")), allowed, labels
    )


def _contradicts(pool: _Pool, group: PodGroup) -> bool:
    """Whether a node selector asks for a label that nodes of this pool have with another value."""
    if "selectors" not in group.found:
        pairs = group.spec.get("nodeSelector").pairs()
        group.found["selectors"] = [(key.raw, value.string) for key, value in pairs if value.string is not None]
    for label, value in group.found["selectors"]:
        allowed = pool.allowed.get(label)
        if allowed is not None and value not in {known.value for known in allowed}:
            return True
        if allowed is None and pool.labels.get(label, value) != value:
            return True
    return False


def machines(job: TrainingJob, group: PodGroup, project: Project) -> list[tuple[Known[str], Instance]]:
    """``machine_names`` as the planner's instances; [] when a type is not in the facts."""
    found = [(name, instance(name.value)) for name in machine_names(job, group, project)]
    return [(name, known) for name, known in found if known is not None] if all(known for _, known in found) else []


def types(job: TrainingJob, group: PodGroup, project: Project) -> list[tuple[Known[str], NodeType]]:
    """``machine_names`` as node types, older ones included; [] when a type is not in the facts."""
    found = [(name, node_types.get(name.value)) for name in machine_names(job, group, project)]
    return [(name, known) for name, known in found if known is not None] if all(known for _, known in found) else []
