"""TW631: pods select machines that no node pool for accelerators offers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Known
from trainwright.linter.view.machines import INSTANCE_LABEL, pool_requirement
from trainwright.linter.view.nodepools import CAPACITY, decided_elsewhere, pool_accelerated

_WELL_KNOWN = re.compile(
    r"(^|\.)(kubernetes\.io|k8s\.io|karpenter\.sh|k8s\.aws|amazonaws\.com|nvidia\.com|amazon\.com)/"
)
_LABELS = (INSTANCE_LABEL, "topology.kubernetes.io/zone", CAPACITY)


class NoPoolForSelector(PodRule):
    """A selector and a pool must agree on every label."""

    id = "TW631"
    severity = "error"
    category = "scheduling"
    summary = "pods select an instance type, zone, capacity type or label that no node pool offers"
    evidence = "verified"
    source = "Karpenter v1.14: a pod's node selector must be compatible with the requirements of a NodePool"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods against the accelerator pools that stand beside them."""
        group = subject.group
        if not group.accelerated or group.spec.open or subject.job.frontend.endswith("Runtime"):
            return
        yield from self._own_labels(subject, project)
        selected = {label: values for label in _LABELS if (values := group.selected(label))}
        lacking, beside = None, False
        for pool in project.related(subject.job.document, "NodePool") if selected else ():
            if decided_elsewhere(pool):
                return
            if pool_accelerated(pool):
                found = _lacks(pool, selected)
                if found is None:
                    return
                lacking = lacking or found
                beside = beside or pool.text.root() is subject.job.document.text.root()
        if lacking is None:
            return
        chosen, label, allowed = lacking
        yield self.hit(
            chosen,
            f"the pods select {label} {chosen.value}, and the NodePools here that have accelerators offer "
            f"{', '.join(sorted(allowed)[:4])}: no node is launched for them and they stay Pending, unless a "
            f"node group "
            "outside these files has such nodes",
            f"{label}: {sorted(allowed)[0]}, or a NodePool with {chosen.value}",
            severity=None if beside else "warning",
        )

    def _own_labels(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Labels of somebody's own invention that no pool in the same file gives to its nodes."""
        pools = project.related(subject.job.document, "NodePool")
        own = [pool for pool in pools if pool.text.root() is subject.job.document.text.root()]
        if not own or len(own) != len(pools) or any(decided_elsewhere(pool) for pool in own):
            return
        for key, value in subject.group.spec.get("nodeSelector").pairs():
            if key.unknown or value.string is None or _WELL_KNOWN.search(key.raw):
                continue
            if not any(_gives(pool, key.raw, value.string) for pool in own):
                yield self.hit(
                    key,
                    f"the pods select {key.raw}={value.string}, and no NodePool here gives its nodes that label: "
                    "Karpenter launches none for them and they stay Pending, unless a node group outside these files "
                    "has it",
                    f"template.metadata.labels: {{{key.raw}: {value.string}}} on the pool, or no such selector",
                )


def _gives(pool: KubernetesObject, label: str, value: str) -> bool:
    """Whether nodes of a pool may carry a label with that value."""
    given = pool.get("spec", "template", "metadata", "labels", label)
    if given.exists:
        return given.unknown or given.string == value or given.string is None
    for requirement in pool.get("spec", "template", "spec", "requirements").elements():
        if requirement.get("key").string == label:
            return True
    return pool.get("spec", "template", "metadata", "labels").open or pool.get("spec", "template", "metadata").open


def _lacks(pool: KubernetesObject, selected: dict[str, list[Known[str]]]) -> tuple[Known[str], str, set[str]] | None:
    """The first selected value that a pool does not allow, its label, and what the pool allows."""
    for label, chosen in selected.items():
        allowed = pool_requirement(pool, label)
        if allowed and not {one.value for one in chosen} & {one.value for one in allowed}:
            return chosen[0], label, {one.value for one in allowed}
    return None
