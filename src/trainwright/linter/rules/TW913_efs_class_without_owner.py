"""TW913: files on EFS volumes belong to a user that nobody chose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class EfsClassWithoutOwner(ObjectRule):
    """An access point acts as one user, whoever the process is."""

    id = "TW913"
    severity = "note"
    category = "storage"
    summary = "an EFS storage class leaves the owner of all files to a number from a range"
    evidence = "verified"
    source = "kubernetes-sigs/aws-efs-csi-driver docs: uid, gid, gidRangeStart; access points enforce their user"
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Classes of access points without uid and gid."""
        parameters = subject.get("parameters")
        if subject.get("provisioner").string != "efs.csi.aws.com" or parameters.open or parameters.unknown:
            return
        if parameters.get("provisioningMode").string != "efs-ap":
            return
        if parameters.get("uid").exists or parameters.get("gid").exists:
            return
        mode = parameters.get("directoryPerms")
        yield self.hit(
            parameters,
            "everything on such a volume is read and written as a user that the driver takes from a range"
            + (f", in a folder with mode {mode.raw}" if mode.exists else "")
            + ": chown fails, also for root, and tools that check the owner (git, ssh, pip caches) complain",
            "uid and gid in parameters, equal to runAsUser and fsGroup of the pods",
        )
