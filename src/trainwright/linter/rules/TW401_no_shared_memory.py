"""TW401: a multi-process training container with the default 64 MiB of /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch

_WORKER_FLAGS = ("num_workers", "dataloader_num_workers", "workers", "data_workers")
# Peer-to-peer copies need NVLink or PCIe P2P; on these types NCCL moves data between GPUs through shared memory.
_NO_PEER_LINK = ("g4dn.", "g5.", "g6.", "g6e.")


class NoSharedMemory(LaunchRule):
    """DataLoader workers and NCCL's shared-memory transport need more than the runtime's default."""

    id = "TW401"
    severity = "warning"
    category = "memory"
    summary = "nothing is mounted on /dev/shm, which is 64 MiB by default"
    evidence = "reported"
    source = "pytorch/pytorch#16979 (bus error in DataLoader workers), NVIDIA/nccl#525 (shared memory transport)"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Training containers on Kubernetes without a mount on /dev/shm."""
        container, group = subject.container, subject.group
        # KubeRay mounts a memory-backed /dev/shm itself; an MPI launcher runs no rank.
        if container is None or group is None or group.role == "launcher" or subject.job.frontend.startswith("Ray"):
            return
        if (
            container.accelerator is None
            or (subject.processes_per_node.known or 0) < 2
            or container.mount_of("/dev/shm")
        ):
            return
        mounts = container.node.get("volumeMounts")
        if mounts.unknown or mounts.open or container.node.open or group.spec.get("hostIPC").boolean:
            return
        workers = subject.arguments.number(*_WORKER_FLAGS).known or 0
        through_memory = any(known.value.startswith(_NO_PEER_LINK) for known in group.instance_types)
        severe = workers > 0 and through_memory
        why = (
            "/dev/shm keeps the container runtime's default of 64 MiB: DataLoader workers that pass "
            "batches through it die with a bus error"
        )
        if through_memory:
            why += (
                ", and NCCL, which has no NVLink here and copies between GPUs through it, fails with "
                '"no space left on device"'
            )
        instead = "mount an emptyDir with medium: Memory (16-32Gi, inside the memory limit) on /dev/shm"
        yield self.hit(container, why, instead, "error" if severe else "warning")
