"""TW904: a Lustre mount without file locks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class LustreWithoutFlock(ObjectRule):
    """flock() fails on Lustre unless it is mounted with the option."""

    id = "TW904"
    severity = "warning"
    category = "storage"
    summary = "FSx for Lustre is mounted without flock"
    evidence = "verified"
    source = "aws-fsx-csi-driver v1.9 examples (flock in all but the EFA one); mount.lustre(8), option flock"
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass", "PersistentVolume")

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Classes and volumes of the driver."""
        if subject.kind == "StorageClass":
            place, driver = subject.node, subject.get("provisioner")
        else:
            place, driver = subject.get("spec"), subject.get("spec", "csi", "driver")
        options = place.get("mountOptions")
        if driver.string != "fsx.csi.aws.com" or place.open or options.open or options.unknown:
            return
        if not any(option.string in ("flock", "localflock") or option.unknown for option in options.elements()):
            yield self.hit(
                options if options.exists else driver,
                "without flock every file lock on the mount fails (Function not implemented): Hugging Face "
                "datasets and "
                "hub caches, filelock and h5py stop at start",
                "mountOptions: [flock]",
            )
