"""TW118: srun does not take over --cpus-per-task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class SrunLosesCpus(JobRule):
    """From 22.05 to 23.02 the step got one CPU."""

    id = "TW118"
    severity = "warning"
    category = "launch"
    summary = "srun does not take over --cpus-per-task"
    evidence = "verified"
    source = (
        "Slurm release notes 22.05 and 23.11; Lightning-AI/pytorch-lightning#18650; NOAA-EMC/global-workflow#2044"
    )
    since: ClassVar[dict[str, str]] = {"slurm": "22.05"}
    until: ClassVar[dict[str, str]] = {"slurm": "23.11"}
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The first training step without the option."""
        slurm = subject.slurm
        if slurm is None or (slurm.cpus_per_task.known or 0) < 2:
            return
        for launch in subject.training_launches:
            step = launch.srun
            if step is None or step.flags.open or step.flags.has("cpus_per_task", "cpus_per_gpu", "exclusive"):
                continue
            outer = launch.launch.outer[0] if launch.launch.outer else launch.launch.command
            if "SRUN_CPUS_PER_TASK" in outer.variables:
                continue
            yield self.hit(
                step,
                f"Slurm 22.05 to 23.02 does not pass --cpus-per-task={slurm.cpus_per_task.known} on to "
                "srun: the step gets one CPU per task, and data loading starves the GPUs",
                "srun --cpus-per-task=$SLURM_CPUS_PER_TASK …, or export "
                "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK (harmless on newer versions)",
            )
            return
