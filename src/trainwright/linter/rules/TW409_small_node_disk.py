"""TW409: nodes for training with the default 20 GiB disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import pool_accelerated, pools_of

_ENOUGH = 100 * 2**30


class SmallNodeDisk(ObjectRule):
    """Training images alone are 10 to 25 GB."""

    id = "TW409"
    severity = "warning"
    category = "memory"
    summary = "nodes for accelerators have a root disk too small for training images"
    evidence = "reported"
    source = (
        "Karpenter v1.14 NodeClass documentation: 20Gi gp3 by default; aws/karpenter-provider-aws#4149, #1415, #3692"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Node classes of accelerator pools."""
        spec = subject.get("spec")
        mappings, policy = spec.get("blockDeviceMappings"), spec.get("instanceStorePolicy")
        if spec.open or mappings.unknown or mappings.open or policy.exists or policy.unknown:
            return
        if not any(pool_accelerated(pool) for pool in pools_of(subject, project)):
            return
        if mappings.absent:
            yield self.hit(
                spec,
                "without blockDeviceMappings and instanceStorePolicy a node gets Karpenter's default root volume of "
                "20Gi, of which pods see 17Gi: one training image fills it, and pods are evicted for disk pressure",
                "blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 500Gi, volumeType: gp3}}], or "
                "instanceStorePolicy: RAID0 on types with NVMe disks",
            )
            return
        sizes = [mapping.get("ebs", "volumeSize") for mapping in mappings.elements()]
        if sizes and all(size.quantity is not None and size.quantity < _ENOUGH for size in sizes):
            largest = max(sizes, key=lambda size: size.quantity or 0)
            yield self.hit(
                largest,
                f"the largest disk of these nodes is {largest.raw}: training images (10-25 GB each, twice that while "
                "unpacking), logs and emptyDirs share it, and a full disk gets pods evicted",
                "volumeSize: 200Gi or more, or instanceStorePolicy: RAID0 on types with NVMe disks",
            )
