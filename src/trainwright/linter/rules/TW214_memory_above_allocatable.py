"""TW214: a pod asks for more memory than the machine leaves to pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.machines import types


class MemoryAboveAllocatable(PodRule):
    """A machine's memory is not all for pods."""

    id = "TW214"
    severity = "warning"
    category = "accelerators"
    summary = "a pod asks for more memory than the machine leaves to pods"
    evidence = "verified"
    source = (
        "allocatable memory of EKS nodes as Karpenter computes it (1.14, VM_MEMORY_OVERHEAD_PERCENT 7.5): "
        "p4d.24xlarge 1057 of 1152 GiB"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Sums of requests against the largest machine."""
        asked = [container.request("memory") for container in subject.group.main_containers]
        total = sum(value.known or 0.0 for value in asked)
        kinds = [kind for _, kind in types(subject.job, subject.group, project)]
        if not kinds or not total or any(kind.memory is None and kind.physical_memory is None for kind in kinds):
            return
        most = max((kind.memory if kind.memory is not None else kind.physical_memory or 0) for kind in kinds)
        if total <= most:
            return
        physical = max(kind.physical_memory or 0 for kind in kinds)
        karpenter = bool(project.related(subject.job.document, "NodePool"))
        yield self.hit(
            max(asked, key=lambda value: value.known or 0.0),
            f"the pod asks for {total / 2**30:.0f} GiB, but {kinds[0].name} leaves {most / 2**30:.0f} "
            f"of its {physical / 2**30:.0f} GiB to pods: it fits no node and stays Pending",
            f"memory: {int(most / 2**30 * 0.95)}Gi, which leaves room for daemon sets",
            severity="error" if total > physical or karpenter else None,
        )
