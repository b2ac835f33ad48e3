"""TW403: shared memory may grow beyond the container's memory limit."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Known


class ShmAboveMemoryLimit(PodRule):
    """A tmpfs is charged to the containers that write to it."""

    id = "TW403"
    severity = "warning"
    category = "memory"
    summary = "a memory-backed volume may take all of the container's memory limit"
    evidence = "verified"
    source = "Kubernetes documentation, emptyDir: a memory-backed volume counts against the writing container's limit"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Memory-backed mounts against the memory limit of the container that holds them."""
        for container in subject.group.main_containers:
            limit = container.limit("memory")
            if not isinstance(limit, Known):
                continue
            for mount in container.mounts:
                if mount.volume is None or not mount.volume.in_memory:
                    continue
                size = mount.volume.source.get("sizeLimit")
                if size.quantity is not None and size.quantity >= limit.value:
                    yield self.hit(
                        size,
                        f"{mount.path} may hold {size.raw}, and what is in it counts against the container's memory "
                        f"limit of {_gib(limit.value)}: a full volume alone gets the container OOM-killed",
                        f"a sizeLimit that leaves room for the processes, or a memory limit well above {size.raw}",
                    )


def _gib(amount: float) -> str:
    return f"{amount / 2**30:.0f}Gi"
