"""TW906: a static FSx volume that says not where the file system is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class FsxVolumeWithoutDnsName(ObjectRule):
    """The node mounts by DNS name."""

    id = "TW906"
    severity = "error"
    category = "storage"
    summary = "a static FSx volume has no dnsname, so it cannot be mounted"
    evidence = "verified"
    source = "aws-fsx-csi-driver v1.9 pkg/driver/node.go: dnsname is not provided; mountname is fsx by default"
    kinds: ClassVar[tuple[str, ...]] = ("PersistentVolume",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """volumeAttributes of static volumes."""
        csi = subject.get("spec", "csi")
        attributes = csi.get("volumeAttributes")
        if csi.get("driver").string != "fsx.csi.aws.com" or csi.open or attributes.open or attributes.unknown:
            return
        if not attributes.get("dnsname").exists:
            yield self.hit(
                attributes if attributes.exists else csi.get("driver"),
                "the driver mounts <dnsname>@tcp:/<mountname> and dnsname is missing: pods stay in ContainerCreating",
                "volumeAttributes: {dnsname: fs-….fsx.<region>.amazonaws.com, mountname: <from the FSx console>}",
            )
        elif attributes.get("mountname").absent:
            yield self.hit(
                attributes,
                'mountname is missing, and the driver takes "fsx": that is right for SCRATCH_1 only, other types '
                "have a mount name of their own",
                "mountname: <LustreConfiguration.MountName of the file system>",
                "warning",
            )
