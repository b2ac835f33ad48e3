"""TW910: a block device asked for as a shared file system."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.storage import behind_claim


class BlockClaimShared(ObjectRule):
    """EBS attaches to one node."""

    id = "TW910"
    severity = "error"
    category = "storage"
    summary = "a ReadWriteMany claim of a storage class of block devices"
    evidence = "verified"
    source = (
        "kubernetes-sigs/aws-ebs-csi-driver@429e202 pkg/driver/controller.go, isValidCapability: several nodes only "
        "for block devices; docs/multi-attach.md: io2 in Block mode"
    )
    kinds: ClassVar[tuple[str, ...]] = ("PersistentVolumeClaim",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Claims with their class in the same set of files, or by its usual name."""
        if subject.get("spec", "volumeMode").string == "Block" or subject.get("spec", "volumeName").exists:
            return
        modes = subject.get("spec", "accessModes").elements()
        many = next((mode for mode in modes if mode.string in ("ReadWriteMany", "ReadOnlyMany")), None)
        if many is None:
            return
        found = behind_claim(subject, project)
        name = subject.get("spec", "storageClassName").string
        known = found.driver in ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")
        if known or (found.storage_class is None and name in ("gp2", "gp3", "io1", "io2", "ebs-sc")):
            yield self.hit(
                many,
                f"storage class {name!r} makes EBS volumes, which attach to one node and know no {many.raw}: "
                "the claim "
                "stays Pending",
                "a class of a shared file system (FSx for Lustre, EFS), or ReadWriteOnce with one pod",
                "error" if known and many.string == "ReadWriteMany" else "warning",
            )
