"""TW916: the reclaim policy Recycle on a volume of a CSI driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class RecycledCsiVolume(ObjectRule):
    """Only NFS and hostPath volumes can be scrubbed."""

    id = "TW916"
    severity = "error"
    category = "storage"
    summary = "persistentVolumeReclaimPolicy Recycle on a CSI volume"
    evidence = "verified"
    source = "Kubernetes documentation, persistent volumes, reclaiming: only nfs and hostPath volumes support Recycle"
    kinds: ClassVar[tuple[str, ...]] = ("PersistentVolume",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Volumes of drivers with the policy."""
        policy = subject.get("spec", "persistentVolumeReclaimPolicy")
        if policy.string == "Recycle" and subject.get("spec", "csi").exists:
            yield self.hit(
                policy,
                "a CSI driver cannot recycle a volume: when its claim is deleted the volume becomes Failed "
                "and binds to no "
                "claim again; and where Recycle works it deletes every file",
                "Retain (checkpoints stay), or Delete for volumes that the driver made",
            )
