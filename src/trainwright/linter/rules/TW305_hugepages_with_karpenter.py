"""TW305: huge pages asked for where only Karpenter makes nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.machines import accepts


class HugepagesWithKarpenter(PodRule):
    """Karpenter computes every instance type with no huge pages."""

    id = "TW305"
    severity = "warning"
    category = "network"
    summary = "huge pages asked for where only Karpenter makes nodes"
    evidence = "verified"
    source = (
        "Karpenter 1.14 does not model hugepages-*; NodeOverlay capacity can; "
        "aws/karpenter-provider-aws#3315, kubernetes-sigs/karpenter#206"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Huge pages without a node that could be known to have them."""
        asked = [key for c in subject.group.containers for key, _ in c.asked("limits").pairs()]
        if not any(key.raw.startswith("hugepages-") for key in asked):
            return
        pools = project.related(subject.job.document, "NodePool")
        overlays = [*project.related(subject.job.document, "NodeOverlay"), *project.objects("NodeOverlay")]
        if not any(accepts(pool, subject.group) for pool in pools):
            return
        for container in subject.group.containers:
            for key, value in container.asked("limits").pairs():
                if (
                    key.raw.startswith("hugepages-")
                    and value.quantity
                    and not any(overlay.get("spec", "capacity", key.raw).exists for overlay in overlays)
                ):
                    yield self.hit(
                        key,
                        f"Karpenter assumes that no instance type has {key.raw}: it finds none for "
                        "this pod and launches no node",
                        "drop it and set FI_EFA_USE_HUGE_PAGE=0, or declare the capacity in a NodeOverlay",
                    )
