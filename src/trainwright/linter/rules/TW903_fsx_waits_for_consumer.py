"""TW903: the file system is created only when the accelerators are already held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class FsxWaitsForConsumer(ObjectRule):
    """An FSx file system takes minutes to create."""

    id = "TW903"
    severity = "warning"
    category = "storage"
    summary = "an FSx volume is created only after the pod has its node"
    evidence = "verified"
    source = "aws-fsx-csi-driver v1.9: no topology; creation takes up to ten minutes"
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """volumeBindingMode of FSx classes."""
        mode = subject.get("volumeBindingMode")
        if subject.get("provisioner").string == "fsx.csi.aws.com" and mode.string == "WaitForFirstConsumer":
            yield self.hit(
                mode,
                "the file system is created when the first pod has been placed: its accelerators wait, paid, "
                "for the five "
                "to ten minutes that takes, and the driver uses no topology, so nothing is gained",
                "volumeBindingMode: Immediate, or a file system made beforehand",
            )
