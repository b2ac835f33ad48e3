"""TW405: a memory-backed volume without any bound."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Absent


class ShmUnbounded(PodRule):
    """Neither the volume nor the container is limited."""

    id = "TW405"
    severity = "note"
    category = "memory"
    summary = "a memory-backed volume is bounded neither by sizeLimit nor by a memory limit"
    evidence = "verified"
    source = (
        "Kubernetes documentation, emptyDir: without sizeLimit a memory-backed volume is sized to the node's memory"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Memory-backed volumes of accelerated containers."""
        for container in subject.group.accelerated:
            if not isinstance(container.limit("memory"), Absent) or container.node.get("resources").open:
                continue
            for mount in container.mounts:
                if mount.volume is not None and mount.volume.in_memory:
                    size = mount.volume.source.get("sizeLimit")
                    if size.absent:
                        yield self.hit(
                            mount.volume,
                            f"{mount.path} may fill the node's memory: nothing limits the volume or the "
                            "container, so "
                            "a leak there makes the kubelet evict pods",
                            "sizeLimit: 32Gi, and a memory limit for the container",
                        )
