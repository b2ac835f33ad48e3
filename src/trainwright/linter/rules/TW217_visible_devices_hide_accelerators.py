"""TW217: CUDA_VISIBLE_DEVICES hides devices that are paid for."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import visible_devices


class VisibleDevicesHideAccelerators(LaunchRule):
    """What is hidden is held all the same."""

    id = "TW217"
    severity = "warning"
    category = "accelerators"
    summary = "CUDA_VISIBLE_DEVICES hides devices that are paid for"
    evidence = "verified"
    source = "CUDA programming guide, CUDA_VISIBLE_DEVICES"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Listed devices against held ones."""
        if subject.launch.context & {"background", "loop"} or len(subject.job.training_launches) > max(
            1, len(subject.job.groups)
        ):
            return
        variable = subject.env("CUDA_VISIBLE_DEVICES")
        text = variable.value.known if variable is not None else None
        held = subject.accelerators_per_node.known
        if (
            variable is None
            or text is None
            or variable.place is None
            or not held
            or "gpu" not in (subject.job.accelerator or "")
        ):
            return
        count = visible_devices(text)
        if count is not None and count < held and not (subject.copies_per_node.known or 1) > 1:
            yield self.hit(
                variable,
                f"CUDA_VISIBLE_DEVICES={text} shows {count} of the {held} GPUs that are held: {held - count} idle",
                f"remove it, or ask for {max(count, 1)}",
            )
