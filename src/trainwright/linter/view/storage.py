"""What stands behind a pod's volume: its claim, the persistent volume, the storage class and their driver.

Takes a Volume of a job and the project; gives a Backing. What is not in the project stays None: it is unknown, not
missing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import Volume

ZONE_LABELS = ("topology.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone", "topology.k8s.aws/zone-id",
               "failure-domain.beta.kubernetes.io/zone")  # fmt: skip
BLOCK_DRIVERS = frozenset({"ebs.csi.aws.com", "kubernetes.io/aws-ebs", "pd.csi.storage.gke.io", "disk.csi.azure.com"})
OBJECT_DRIVERS = frozenset({"s3.csi.aws.com", "gcsfuse.csi.storage.gke.io", "blob.csi.azure.com",
                            "ru.yandex.s3.csi", "ch.ctrox.csi.s3-driver"})  # fmt: skip


@dataclass(frozen=True)
class Backing:
    """The objects behind a claim; each None when the project does not hold it."""

    claim: KubernetesObject | None
    volume: KubernetesObject | None
    storage_class: KubernetesObject | None

    @property
    def driver(self) -> str:
        """The CSI driver (or in-tree plugin) that serves it, "" when nothing says."""
        if self.volume is not None:
            if self.volume.get("spec", "awsElasticBlockStore").exists:
                return "kubernetes.io/aws-ebs"
            return self.volume.get("spec", "csi", "driver").string or ""
        return (self.storage_class.get("provisioner").string or "") if self.storage_class is not None else ""

    @property
    def access_modes(self) -> list[Node]:
        """The claim's access modes."""
        return self.claim.get("spec", "accessModes").elements() if self.claim is not None else []

    @property
    def mount_options(self) -> list[str] | None:
        """Mount options in effect; None when a template or an unseen object decides."""
        holder = self.volume.get("spec") if self.volume is not None else None
        if holder is None:
            if self.storage_class is None:
                return None
            holder = self.storage_class.node
        options = holder.get("mountOptions")
        if options.unknown or options.open or any(option.string is None for option in options.elements()):
            return None
        return [option.raw for option in options.elements()]


def zones(volume: KubernetesObject | None) -> set[str]:
    """Zones that a PersistentVolume's node affinity allows; empty when it does not say."""
    found: set[str] = set()
    if volume is None:
        return found
    for term in volume.get("spec", "nodeAffinity", "required", "nodeSelectorTerms").elements():
        for expression in term.get("matchExpressions").elements():
            if expression.get("key").string in ZONE_LABELS and expression.get("operator").string == "In":
                values = [value.string for value in expression.get("values").elements()]
                if None in values:
                    return set()
                found.update(value for value in values if value)
    return found


def named_as_block(found: Backing) -> bool:
    """Whether a class that is not in sight is, by its name, one of EBS volumes (``gp3``, EKS's ``auto-ebs-sc``)."""
    name = found.claim.get("spec", "storageClassName").string if found.claim is not None else None
    return (
        name is not None and re.fullmatch(r"(?:gp[23]|io[12]|st1|sc1)(?:-.*)?|(?:.*-)?ebs(?:-.*)?", name) is not None
    )


def behind_claim(claim: KubernetesObject, project: Project) -> Backing:
    """The volume and the storage class of a claim, as far as the project holds them."""
    spec = claim.get("spec")
    volume = project.find(claim, "PersistentVolume", spec.get("volumeName").string)
    if volume is None:
        for candidate in project.related(claim, "PersistentVolume"):
            reference = candidate.get("spec", "claimRef")
            if reference.get("name").string == claim.object_name and claim.object_name is not None:
                volume = candidate
    storage_class = project.find(claim, "StorageClass", spec.get("storageClassName").string or None)
    return Backing(claim, volume, storage_class)


def backing(volume: Volume, job: TrainingJob, project: Project) -> Backing:
    """What stands behind a pod's volume; a CSI volume written into the pod has neither claim nor class."""
    name = volume.claim
    if name is None:
        return Backing(None, None, None)
    namespace = job.object.namespace if job.object is not None else None
    claim = project.find(job.document, "PersistentVolumeClaim", name, namespace)
    if claim is not None:
        return behind_claim(claim, project)
    for candidate in project.related(job.document, "PersistentVolume"):
        if candidate.get("spec", "claimRef", "name").string == name:
            return Backing(None, candidate, None)
    return Backing(None, None, None)


def driver_of(volume: Volume, job: TrainingJob, project: Project) -> str:
    """The driver behind a pod's volume: its own ``csi``, or that of its claim; "" when nothing says."""
    if volume.kind == "csi":
        return volume.source.get("driver").string or ""
    return backing(volume, job, project).driver
