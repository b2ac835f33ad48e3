"""TW905: an EFS storage class that cannot provision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_FILE_SYSTEM = ("fileSystemId", "fileSystemIdConfigRef", "fileSystemIdSecretRef")


class EfsClassIncomplete(ObjectRule):
    """Dynamic provisioning makes access points of an existing file system."""

    id = "TW905"
    severity = "error"
    category = "storage"
    summary = "a StorageClass of EFS lacks what its driver requires to make a volume"
    evidence = "verified"
    source = (
        "kubernetes-sigs/aws-efs-csi-driver@a4fc676 pkg/driver/controller.go: Missing provisioningMode parameter, "
        "efs-ap or s3files-ap only; filesystem_id_finder.go: fileSystemId, or a reference to it"
    )
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Parameters of classes that claims use for new volumes."""
        parameters = subject.get("parameters")
        if subject.get("provisioner").string != "efs.csi.aws.com" or parameters.open or parameters.unknown:
            return
        # A class without parameters only ties static volumes to claims.
        if not parameters.pairs():
            return
        mode = parameters.get("provisioningMode")
        if mode.absent or (mode.string is not None and mode.string not in ("efs-ap", "s3files-ap")):
            wrong = (
                f"knows no provisioningMode {mode.raw}" if mode.exists else "refuses a class without provisioningMode"
            )
            yield self.hit(
                mode if mode.exists else parameters,
                f"the EFS driver {wrong}: every claim of this class stays Pending",
                "provisioningMode: efs-ap",
            )
        elif mode.string == "efs-ap" and all(parameters.get(name).absent for name in _FILE_SYSTEM):
            yield self.hit(
                parameters,
                "the EFS driver makes access points of an existing file system and none is named: every "
                "claim of this "
                "class stays Pending",
                "fileSystemId: fs-…",
            )
