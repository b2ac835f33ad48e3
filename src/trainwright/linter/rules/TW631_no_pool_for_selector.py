"""TW631: pods select machines that no node pool for accelerators offers."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Known
from trainwright.linter.view.machines import INSTANCE_LABEL, pool_requirement
from trainwright.linter.view.nodepools import CAPACITY, decided_elsewhere, pool_accelerated

_LABELS = (INSTANCE_LABEL, "topology.kubernetes.io/zone", CAPACITY)


class NoPoolForSelector(PodRule):
    """A selector and a pool must agree on every label."""

    id = "TW631"
    severity = "error"
    category = "scheduling"
    summary = "pods select an instance type, zone or capacity type that no node pool offers"
    evidence = "verified"
    source = "Karpenter v1.14: a pod's node selector must be compatible with the requirements of a NodePool"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods against the accelerator pools that stand beside them."""
        group = subject.group
        if not group.accelerated or group.spec.open or subject.job.frontend.endswith("Runtime"):
            return
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


def _lacks(pool: KubernetesObject, selected: dict[str, list[Known[str]]]) -> tuple[Known[str], str, set[str]] | None:
    """The first selected value that a pool does not allow, its label, and what the pool allows."""
    for label, chosen in selected.items():
        allowed = pool_requirement(pool, label)
        if allowed and not {one.value for one in chosen} & {one.value for one in allowed}:
            return chosen[0], label, {one.value for one in allowed}
    return None
