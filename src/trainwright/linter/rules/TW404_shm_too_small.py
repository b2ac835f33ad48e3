"""TW404: shared memory smaller than several training processes use."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch


class ShmTooSmall(LaunchRule):
    """A sizeLimit that was meant for one small process."""

    id = "TW404"
    severity = "warning"
    category = "memory"
    summary = "the /dev/shm of several training processes is smaller than 1 GiB"
    evidence = "reported"
    source = "NVIDIA/nccl#525; NCCL user guide, troubleshooting: shared memory (--shm-size=1g); pytorch/pytorch#16979"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Launches of several processes over a small tmpfs."""
        container = subject.container
        if container is None or container.accelerator is None or (subject.processes_per_node.known or 0) < 2:
            return
        mount = container.mount_of("/dev/shm")
        if mount is None or mount.volume is None or not mount.volume.in_memory:
            return
        size = mount.volume.source.get("sizeLimit")
        if size.quantity is not None and 0 < size.quantity < 2**30:
            yield self.hit(
                size,
                f"{subject.processes_per_node.known} processes share {size.raw} of /dev/shm: NCCL stops with "
                '"no space left on device" or a DataLoader worker dies with a bus error',
                "sizeLimit: 16Gi or more, inside the memory limit",
            )
