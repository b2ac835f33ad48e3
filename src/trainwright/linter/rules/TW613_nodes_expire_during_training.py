"""TW613: nodes are replaced by age while training runs on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import hours, pool_accelerated


class NodesExpireDuringTraining(ObjectRule):
    """Expiry is forceful."""

    id = "TW613"
    severity = "warning"
    category = "scheduling"
    summary = "nodes for accelerators expire while a job may be running on them"
    evidence = "verified"
    source = "Karpenter v1.14: template.spec.expireAfter is 720h by default; expiration does not respect budgets"
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Accelerator pools."""
        spec = subject.get("spec", "template", "spec")
        if (
            subject.version != "v1"
            or spec.open
            or not spec.get("nodeClassRef").exists
            or not pool_accelerated(subject)
        ):
            return
        expire = spec.get("expireAfter")
        age = hours(expire)
        if age is not None and age < 24 * 14:
            yield self.hit(
                expire,
                f"a node is drained {expire.raw} after it started, whatever runs on it: budgets and consolidation "
                "settings do not hold expiry back, and a longer run is cut",
                "expireAfter: Never for training pools, or a time above the longest job",
            )
        elif expire.absent:
            yield self.hit(
                spec.get("nodeClassRef"),
                "expireAfter is not set, so nodes expire 720h after they started, also in the middle of a run",
                "expireAfter: Never for training pools (and terminationGracePeriod as an upper bound for a drain)",
                "note",
            )
