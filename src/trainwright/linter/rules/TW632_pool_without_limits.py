"""TW632: a node pool of accelerators without a bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import decided_elsewhere, pool_accelerated


class PoolWithoutLimits(ObjectRule):
    """A pool buys whatever pending pods ask for."""

    id = "TW632"
    severity = "warning"
    category = "scheduling"
    summary = "a NodePool of accelerators has no limits"
    evidence = "verified"
    source = (
        "Karpenter v1.14 documentation, NodePools: spec.limits bounds what a pool may launch; without it nothing does"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Whole accelerator pools (a patch says nothing about limits)."""
        spec = subject.get("spec")
        if spec.open or decided_elsewhere(subject) or not spec.get("template", "spec", "nodeClassRef").exists:
            return
        # A static pool states how many nodes it has.
        if spec.get("limits").exists or spec.get("replicas").exists or not pool_accelerated(subject):
            return
        yield self.hit(
            subject,
            "the pool has no limits: a job with a wrong number of replicas, or one that fails and is "
            "retried, makes it "
            "launch accelerator nodes until the account's quota ends it",
            "spec.limits: {nvidia.com/gpu: <the most you want to pay for>}",
        )
