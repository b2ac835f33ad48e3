"""TW915: disks of one zone are made before it is known where the pods run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.storage import BLOCK_DRIVERS


class BlockVolumeBoundAtOnce(ObjectRule):
    """A disk lives in one zone for ever."""

    id = "TW915"
    severity = "warning"
    category = "storage"
    summary = "a class of block volumes binds them before the pod is scheduled"
    evidence = "verified"
    source = (
        "Kubernetes documentation, storage classes: volumeBindingMode is Immediate by default, and "
        "topology-constrained "
        "volumes are then made without knowledge of the pod's requirements"
    )
    kinds: ClassVar[tuple[str, ...]] = ("StorageClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Classes of zonal disks without WaitForFirstConsumer and without a fixed zone."""
        mode, topologies = subject.get("volumeBindingMode"), subject.get("allowedTopologies")
        if subject.get("provisioner").string not in BLOCK_DRIVERS or subject.node.open or topologies.exists:
            return
        if mode.unknown or (mode.exists and mode.string != "Immediate"):
            return
        yield self.hit(
            mode if mode.exists else subject.get("provisioner"),
            f"a volume is made in any zone as soon as it is claimed (volumeBindingMode Immediate"
            f"{'' if mode.exists else ', the default'}): accelerators are usually to be had in one zone "
            f"only, and a pod "
            "whose disk is in another stays Pending (volume node affinity conflict)",
            "volumeBindingMode: WaitForFirstConsumer",
        )
