"""TW611: consolidation may evict training pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.machines import accepts
from trainwright.linter.view.nodepools import DO_NOT_DISRUPT


class ConsolidationEvictsTraining(PodRule):
    """WhenEmptyOrUnderutilized moves running pods to save money."""

    id = "TW611"
    severity = "warning"
    category = "scheduling"
    summary = "the node pool consolidates nodes on which this training runs"
    evidence = "reported"
    source = (
        "Karpenter v1.14 documentation, consolidation (WhenEmptyOrUnderutilized by default); "
        "dynamical-org/reformatters"
        "#945; kubernetes-sigs/karpenter#701"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods without the annotation, and the pools that accept them."""
        group, job = subject.group, subject.job
        annotations = group.metadata.get("annotations")
        if (
            not group.accelerated
            or not job.ends
            or not group.template.exists
            or annotations.open
            or group.metadata.open
        ):
            return
        if group.annotation(DO_NOT_DISRUPT).exists or job.frontend.endswith("Runtime"):
            return
        for pool in project.related(job.document, "NodePool"):
            disruption = pool.get("spec", "disruption")
            policy = disruption.get("consolidationPolicy")
            underutilized = policy.string in ("WhenEmptyOrUnderutilized", "WhenUnderutilized", "Balanced")
            if disruption.open or policy.unknown or not (underutilized or policy.absent) or not accepts(pool, group):
                continue
            if self._blocked(disruption):
                continue
            wait = disruption.get("consolidateAfter").string
            yield self.hit(
                policy if policy.exists else disruption,
                f"this pool {'consolidates' if policy.exists else 'consolidates by default'} nodes that are not full"
                f"{' after ' + wait if wait else ''}: a training pod that another node could hold is evicted in the "
                "middle of its run, and the run starts again from its last checkpoint",
                'karpenter.sh/do-not-disrupt: "true" in the annotations of the pod template, or consolidationPolicy: '
                "WhenEmpty for training pools",
            )
            return

    def _blocked(self, disruption: Node) -> bool:
        """Whether a budget forbids consolidation of used nodes at all times."""
        for budget in disruption.get("budgets").elements():
            reasons = [reason.string for reason in budget.get("reasons").elements()]
            always = budget.get("nodes").raw in ("0", "0%") and not budget.get("schedule").exists
            if always and (not reasons or "Underutilized" in reasons):
                return True
        return False
