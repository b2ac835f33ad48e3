"""TW402: the volume on /dev/shm is on the node's disk."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class ShmOnDisk(PodRule):
    """Only ``medium: Memory`` makes an emptyDir shared memory."""

    id = "TW402"
    severity = "warning"
    category = "memory"
    summary = "the emptyDir on /dev/shm has no medium: Memory, so it is on disk"
    evidence = "verified"
    source = "Kubernetes 1.36 API, EmptyDirVolumeSource.medium: empty means the node's default medium"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers with an emptyDir on /dev/shm."""
        seen: set[str] = set()
        for container in subject.group.containers:
            for mount in container.mounts:
                volume = mount.volume
                if mount.path != "/dev/shm" or volume is None or volume.kind != "emptyDir" or volume.name in seen:
                    continue
                medium = volume.source.get("medium")
                if medium.unknown or volume.source.unknown or medium.string == "Memory":
                    continue
                seen.add(volume.name)
                yield self.hit(
                    volume.source if volume.source.exists else volume,
                    "without medium: Memory this emptyDir is a folder on the node's disk: NCCL and "
                    "DataLoader workers "
                    "exchange every batch through the file system instead of memory",
                    "emptyDir: {medium: Memory, sizeLimit: 32Gi}, inside the container's memory limit",
                )
