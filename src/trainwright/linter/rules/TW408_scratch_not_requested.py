"""TW408: a large emptyDir that the scheduler does not know of."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Absent

_LARGE = 100 * 2**30


class ScratchNotRequested(PodRule):
    """``sizeLimit`` is a limit, not a request."""

    id = "TW408"
    severity = "warning"
    category = "memory"
    summary = "a large emptyDir without an ephemeral-storage request"
    evidence = "verified"
    source = (
        "Kubernetes documentation, local ephemeral storage: pods are placed by their ephemeral-storage requests; "
        "Karpenter reports 17Gi for a node with the default root volume"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Disk-backed emptyDirs from 100 GiB."""
        group = subject.group
        if any(not isinstance(c.request("ephemeral-storage"), Absent) for c in group.main_containers):
            return
        if any(c.node.get("resources").open or c.node.open for c in group.main_containers):
            return
        for volume in group.volumes.values():
            size = volume.source.get("sizeLimit")
            if volume.kind != "emptyDir" or volume.in_memory or (size.quantity or 0) < _LARGE:
                continue
            yield self.hit(
                size,
                f"the pod may write {size.raw} to the node's disk, but requests no ephemeral-storage: it is "
                "placed on "
                "nodes with less (EKS nodes have 20Gi by default), and the kubelet evicts it when the disk is full",
                f"resources.requests: {{ephemeral-storage: {size.raw}}} in the container that writes there, on nodes "
                "with such a disk (blockDeviceMappings, or instanceStorePolicy: RAID0)",
            )
