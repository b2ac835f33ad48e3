"""TW409: nodes for training with the default 20 GiB disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
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
        if (wrong := _not_mounted(spec, mappings)) is not None:
            yield self.hit(*wrong)
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


def _not_mounted(spec: Node, mappings: Node) -> tuple[Node, str, str] | None:
    """Where disks are made that images and pods do not use: place, why and instead."""
    aliases = [(term.get("alias").string or "") for term in spec.get("amiSelectorTerms").elements()]
    family = (spec.get("amiFamily").string or (aliases[0].split("@")[0] if len(aliases) == 1 else "")).lower()
    device = {"bottlerocket": "/dev/xvdb", "al2023": "/dev/xvda", "al2": "/dev/xvda"}.get(family)
    names = [mapping.get("deviceName") for mapping in mappings.elements()]
    roots = [mapping.get("rootVolume") for mapping in mappings.elements()]
    if device is None or not names or any(name.string in (None, device) for name in names):
        return None
    if any(root.boolean or root.unknown for root in roots):
        return None
    if family == "bottlerocket":
        return (
            names[0],
            f"Bottlerocket keeps images and emptyDirs on /dev/xvdb, and {names[0].raw} is its small system disk: the "
            "data disk stays at 20Gi, one training image fills it, and pods are evicted for disk pressure",
            "deviceName: /dev/xvdb for the large volume",
        )
    return (
        names[0],
        f"the root disk of these images is {device}: {names[0].raw} is attached as a second disk that "
        f"nothing formats "
        "or mounts, and the root stays at 20Gi, which one training image fills",
        f"deviceName: {device}",
    )
