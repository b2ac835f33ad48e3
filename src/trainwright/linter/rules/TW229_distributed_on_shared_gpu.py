"""TW229: distributed training on time-sliced GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class DistributedOnSharedGpu(LaunchRule):
    """Two shares may be one GPU."""

    id = "TW229"
    severity = "warning"
    category = "accelerators"
    summary = "distributed training on time-sliced GPUs"
    evidence = "verified"
    source = (
        "NVIDIA/k8s-device-plugin, time-slicing: replicas of one GPU are offered as nvidia.com/gpu.shared; "
        "NCCL refuses two ranks on one GPU (Duplicate GPU detected)"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Several ranks on shares."""
        shared = (
            subject.container.asked("limits").get("nvidia.com/gpu.shared") if subject.container is not None else None
        )
        if (
            shared is not None
            and shared.quantity
            and ((subject.processes_per_node.known or 1) > 1 or rendezvous.nodes_at_least_two(subject) is not None)
        ):
            yield self.hit(
                shared,
                "nvidia.com/gpu.shared hands out shares of GPUs: two ranks may get one GPU, and NCCL "
                "refuses that (Duplicate GPU detected)",
                "nvidia.com/gpu: whole GPUs",
            )
