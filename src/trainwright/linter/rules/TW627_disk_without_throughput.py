"""TW627: fast disks with the slowest throughput."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class DiskWithoutThroughput(ObjectRule):
    """gp3 has 125 MiB/s unless more is asked for."""

    id = "TW627"
    severity = "note"
    category = "scheduling"
    summary = "a gp3 volume with many IOPS keeps the default throughput of 125 MiB/s"
    evidence = "verified"
    source = "Amazon EBS documentation, gp3: 3000 IOPS and 125 MiB/s baseline, throughput is set apart from IOPS"
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Block devices of node classes."""
        for mapping in subject.get("spec", "blockDeviceMappings").elements():
            disk = mapping.get("ebs")
            iops = disk.get("iops")
            if (
                disk.get("volumeType").string == "gp3"
                and (iops.integer or 0) > 3000
                and disk.get("throughput").absent
            ):
                yield self.hit(
                    iops,
                    f"{iops.raw} IOPS are paid, but throughput stays at 125 MiB/s: a training image of 15 GB "
                    "takes two "
                    "minutes to write, on every node",
                    "throughput: 1000",
                )
