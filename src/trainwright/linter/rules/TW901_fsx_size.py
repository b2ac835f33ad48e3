"""TW901: an FSx for Lustre claim of a size that does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_FSX = "fsx.csi.aws.com"


class FsxSize(ObjectRule):
    """FSx for Lustre exists only in certain sizes; the driver rounds up silently."""

    id = "TW901"
    severity = "warning"
    category = "storage"
    summary = "an FSx for Lustre claim of a size that does not exist"
    evidence = "verified"
    source = "aws-fsx-csi-driver v1.9.0, capacity rounding (1200, then multiples of 2400 GiB)"
    kinds: ClassVar[tuple[str, ...]] = ("PersistentVolumeClaim",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The claim's size against its storage class."""
        storage = project.find(subject, "StorageClass", subject.get("spec", "storageClassName").string)
        if storage is None or storage.get("provisioner").string != _FSX:
            return
        size = subject.get("spec", "resources", "requests", "storage")
        wanted = size.quantity
        if wanted is None or storage.get("parameters", "deploymentType").string in (None, "SCRATCH_1"):
            return
        gib = wanted / 2**30
        if gib > 1200 and gib % 2400:
            larger = int(-(-gib // 2400) * 2400)
            yield self.hit(
                size,
                f"FSx for Lustre has no file system of {size.raw}: the driver makes one "
                f"of {larger} GiB, and that is what is paid",
                f"storage: {larger}Gi, or 1200Gi",
            )
