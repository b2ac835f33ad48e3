"""TW912: the file system that is created is not the one that is mounted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class FileSystemNotMounted(ObjectRule):
    """A StorageClass of FSx makes another."""

    id = "TW912"
    severity = "warning"
    category = "storage"
    summary = "an FSx FileSystem is created, and the claims beside it create another"
    evidence = "verified"
    source = (
        "aws-fsx-csi-driver v1.9: dynamic provisioning creates a file system for each claim; static volumes name one"
    )
    kinds: ClassVar[tuple[str, ...]] = ("FileSystem",)
    groups: ClassVar[tuple[str, ...]] = ("fsx.services.k8s.aws",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """FileSystems beside FSx classes that claims use, without any static volume."""
        classes = {
            found.object_name
            for found in project.related(subject, "StorageClass")
            if found.get("provisioner").string == "fsx.csi.aws.com"
        }
        claims = [
            claim
            for claim in project.related(subject, "PersistentVolumeClaim")
            if claim.get("spec", "storageClassName").string in classes and not claim.get("spec", "volumeName").exists
        ]
        volumes = [
            volume
            for volume in project.related(subject, "PersistentVolume")
            if volume.get("spec", "csi", "driver").string == "fsx.csi.aws.com"
        ]
        if claims and not volumes and None not in classes:
            yield self.hit(
                subject,
                f"claim {claims[0].object_name!r} uses a StorageClass of FSx, which creates a second, empty "
                "file system: "
                f"{subject.object_name!r} is paid for and mounted by nothing, and its data is not seen",
                "a PersistentVolume with csi.volumeHandle, dnsname and mountname of this file system, and a "
                "claim with "
                'storageClassName: "" and volumeName',
            )
