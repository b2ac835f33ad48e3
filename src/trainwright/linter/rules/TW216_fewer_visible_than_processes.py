"""TW216: CUDA_VISIBLE_DEVICES shows fewer devices than processes start."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import visible_devices


class FewerVisibleThanProcesses(LaunchRule):
    """Each local rank selects the device of its number."""

    id = "TW216"
    severity = "error"
    category = "accelerators"
    summary = "CUDA_VISIBLE_DEVICES shows fewer devices than processes start"
    evidence = "verified"
    source = (
        "CUDA programming guide, CUDA_VISIBLE_DEVICES: only listed devices are visible, numbered from 0; "
        "cudaSetDevice beyond them is an invalid device ordinal"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Listed devices against local processes."""
        if (
            subject.tool == "deepspeed"
            or subject.flags.has("gpu_ids")
            or subject.job.frontend in ("RayJob", "RayCluster")
        ):
            return
        variable = subject.env("CUDA_VISIBLE_DEVICES") or subject.env("HIP_VISIBLE_DEVICES")
        text = variable.value.known if variable is not None else None
        started = (
            subject.copies_per_node if not subject.tool and subject.srun is not None else subject.processes_per_node
        )
        if (
            variable is None
            or text is None
            or variable.place is None
            or not isinstance(started, Known)
            or started.value < 2
        ):
            return
        count = visible_devices(text)
        if count is not None and started.value > count:
            shown = f"{count} device{'s' if count != 1 else ''}" if count else "no device"
            yield self.hit(
                variable,
                f"{variable.name}={text} shows {shown}, but {started.value} processes start on each "
                f"node: those from {count} on have none (invalid device ordinal)",
                f"remove it, or start {count} processes" if count else "remove it",
            )
