"""TW414: pods ask for more local disk than any node of their pools has."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.machines import accepting
from trainwright.linter.view.nodepools import decided_elsewhere, node_class

_DEFAULT = 20 * 2**30


class ScratchAboveNodeDisk(PodRule):
    """Karpenter counts the disk of a node before it makes one."""

    id = "TW414"
    severity = "error"
    category = "memory"
    summary = "pods request more ephemeral-storage than the nodes of their pools have"
    evidence = "verified"
    source = (
        "aws/karpenter-provider-aws pkg/providers/instancetype/types.go (1.14), ephemeralStorage: the "
        "instance store with "
        "instanceStorePolicy RAID0, else the root volume of blockDeviceMappings, else 20Gi"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """The sum of the containers' requests against the largest disk."""
        amounts = [container.request("ephemeral-storage") for container in subject.group.main_containers]
        stated = [amount for amount in amounts if amount.known is not None]
        pools = accepting(subject.job, subject.group, project)
        if not stated or not pools:
            return
        total = sum(amount.known or 0 for amount in stated)
        disks = [None if decided_elsewhere(pool) else _disk(node_class(pool, project)) for pool in pools]
        largest = max((disk for disk in disks if disk is not None), default=0)
        if None in disks or total <= largest:
            return
        yield self.hit(
            stated[0],
            f"the pod asks for {total / 2**30:.0f}Gi on the node's disk, and every node class that its pools "
            f"use gives "
            f"nodes of {largest / 2**30:.0f}Gi: Karpenter launches none and the pod stays Pending",
            "instanceStorePolicy: RAID0 on types with NVMe disks, a larger volumeSize of the root volume, or a claim",
        )


def _disk(found: KubernetesObject | None) -> float | None:
    """Bytes of the disk that pods share; None when that is not certain."""
    if found is None:
        return None
    spec = found.get("spec")
    mappings, policy = spec.get("blockDeviceMappings"), spec.get("instanceStorePolicy")
    if spec.open or mappings.unknown or mappings.open or policy.exists or policy.unknown:
        return None
    sizes = [mapping.get("ebs", "volumeSize").quantity for mapping in mappings.elements()]
    known = [float(size) for size in sizes if size is not None]
    return max([_DEFAULT, *known]) if len(known) == len(sizes) else None
