"""TW413: the host's /dev/shm is shared with the pod."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class HostpathShm(PodRule):
    """Shared memory segments of all such pods are in one place."""

    id = "TW413"
    severity = "note"
    category = "memory"
    summary = "the host's /dev/shm is mounted: segments outlive the pod and are shared with others"
    evidence = "verified"
    source = "Kubernetes documentation, hostPath: the folder is the node's own and is not cleaned when the pod ends"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """hostPath volumes of /dev/shm in training pods."""
        if not subject.group.accelerated:
            return
        for volume in subject.group.volumes.values():
            path = volume.source.get("path")
            if volume.kind == "hostPath" and (path.string or "").rstrip("/") == "/dev/shm":
                yield self.hit(
                    path,
                    "the pod writes into the node's own shared memory: what a crashed run leaves there stays "
                    "until the "
                    "node reboots, no limit of the pod applies to it, and other pods can read it",
                    "emptyDir: {medium: Memory, sizeLimit: 32Gi}",
                )
