"""TW921: training with all rights on the node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class PrivilegedTraining(PodRule):
    """Device plugins give GPUs and EFA without privileges."""

    id = "TW921"
    severity = "warning"
    category = "security"
    summary = "a training container is privileged, or mounts the node's own folders"
    evidence = "verified"
    source = "Kubernetes Pod Security Standards (baseline); device plugins pass devices to unprivileged containers"
    _paths: ClassVar[tuple[str, ...]] = (
        "/", "/etc", "/root", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/var/lib/kubelet",
        "/var/run/containerd/containerd.sock", "/proc", "/sys", "/usr", "/var/lib/docker", "/boot",
    )  # fmt: skip

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods of jobs."""
        group = subject.group
        if not group.accelerated or not subject.job.ends:
            return
        for container in group.accelerated:
            privileged = container.node.get("securityContext", "privileged")
            if privileged.boolean is True:
                yield self.hit(
                    privileged,
                    "a privileged container sees every device of the node, also accelerators given to "
                    "others, and can "
                    "take the node over: device plugins give GPUs, Neuron devices and EFA without it",
                    "drop privileged; capabilities: {add: [IPC_LOCK]} is enough for pinned memory",
                )
        for volume in group.volumes.values():
            path = volume.source.get("path")
            if volume.kind == "hostPath" and (path.string or "-").rstrip("/") in (p.rstrip("/") for p in self._paths):
                yield self.hit(
                    path,
                    f"the pod mounts {path.raw} of the node: whoever can start this job can change the node and read "
                    "what other pods keep there",
                    "a claim, an emptyDir, or a folder of its own such as /mnt/k8s-disks",
                )
