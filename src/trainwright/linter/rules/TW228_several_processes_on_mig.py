"""TW228: several processes in a container of MIG slices."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


class SeveralProcessesOnMig(LaunchRule):
    """A process sees one MIG slice, and slices cannot talk to each other."""

    id = "TW228"
    severity = "warning"
    category = "accelerators"
    summary = "several processes in a container of MIG slices"
    evidence = "verified"
    source = (
        "NVIDIA MIG user guide: CUDA enumerates a single MIG instance per process; NCCL does not connect "
        "instances of one GPU"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Local ranks on slices."""
        resource, started = (
            (subject.container.accelerator or "") if subject.container is not None else "",
            subject.processes_per_node,
        )
        if resource.startswith("nvidia.com/mig-") and isinstance(started, Known) and started.value > 1:
            slices = subject.container.accelerators.known if subject.container is not None else None
            yield self.hit(
                started,
                f"{started.value} processes share slices of MIG GPUs: CUDA shows each process one "
                "slice, and NCCL cannot connect two slices",
                "whole GPUs (nvidia.com/gpu) for distributed training, or one process per slice",
                severity=None if slices is None or started.value <= slices else "error",
            )
