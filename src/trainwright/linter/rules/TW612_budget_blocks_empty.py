"""TW612: a budget that keeps empty nodes for ever."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class BudgetBlocksEmpty(ObjectRule):
    """A budget without reasons applies to every kind of disruption."""

    id = "TW612"
    severity = "warning"
    category = "scheduling"
    summary = "a disruption budget of 0 nodes without reasons also keeps empty nodes"
    evidence = "verified"
    source = (
        "kubernetes-sigs/karpenter v1.14 pkg/apis/v1/nodepool.go: a budget without reasons applies to all of them"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Budgets of 0 that always hold."""
        for budget in subject.get("spec", "disruption", "budgets").elements():
            nodes, reasons = budget.get("nodes"), budget.get("reasons")
            if nodes.raw not in ("0", "0%") or budget.get("schedule").exists or budget.open:
                continue
            listed = [reason.string for reason in reasons.elements()]
            if reasons.absent or "Empty" in listed:
                yield self.hit(
                    nodes,
                    "this budget forbids every voluntary disruption, the removal of empty nodes too: an "
                    "accelerator node "
                    "stays, and is paid, after its last job (expiry and spot interruption are not held back)",
                    'reasons: [Drifted, Underutilized] beside nodes: "0"',
                )
