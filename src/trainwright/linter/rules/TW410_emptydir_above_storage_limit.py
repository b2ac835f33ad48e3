"""TW410: an emptyDir larger than the pod's ephemeral-storage limit."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class EmptydirAboveStorageLimit(PodRule):
    """Emptydirs count against ephemeral-storage limits."""

    id = "TW410"
    severity = "warning"
    category = "memory"
    summary = "an emptyDir may grow beyond the pod's ephemeral-storage limit"
    evidence = "verified"
    source = (
        "Kubernetes documentation, local ephemeral storage: emptyDirs count, and a pod over its limits is evicted"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Sum of the containers' limits against each volume."""
        group = subject.group
        limits = [container.limit("ephemeral-storage").known for container in group.main_containers]
        if not limits or any(limit is None for limit in limits):
            return
        total = sum(limit for limit in limits if limit is not None)
        for volume in group.volumes.values():
            size = volume.source.get("sizeLimit")
            if volume.kind == "emptyDir" and not volume.in_memory and (size.quantity or 0) > total:
                yield self.hit(
                    size,
                    f"the volume may hold {size.raw}, but the pod is evicted once its containers, logs and emptyDirs "
                    f"together use {total / 2**30:.0f}Gi (the sum of the ephemeral-storage limits)",
                    f"an ephemeral-storage limit above {size.raw}, or a smaller sizeLimit",
                )
