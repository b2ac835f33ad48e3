"""TW226: one CPU for all processes of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class LauncherTaskWithOneCpu(JobRule):
    """A task gets one CPU unless it asks for more."""

    id = "TW226"
    severity = "warning"
    category = "accelerators"
    summary = "one CPU for all processes of a node"
    evidence = "verified"
    source = "sbatch(1): the default is one CPU per task; a launcher's children share the CPUs of its task"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Launchers in tasks with the default CPU count."""
        slurm = subject.slurm
        if (
            slurm is None
            or not slurm.flags.used
            or slurm.exclusive
            or slurm.flags.has(
                "cpus_per_task", "cpus_per_gpu", "mincpus", "whole", "ntasks", "cores_per_socket", "extra_node_info"
            )
            or slurm.tasks_per_node.known != 1
        ):
            return
        for launch in subject.training_launches:
            count = launch.processes_per_node.known or 0
            if (
                launch.tool in ("torchrun", "accelerate", "deepspeed")
                and count > 1
                and not (
                    launch.srun is not None and launch.srun.flags.has("cpus_per_task", "cpus_per_gpu", "exclusive")
                )
            ):
                yield self.hit(
                    launch,
                    f"the task gets one CPU (Slurm's default), and {count} processes with their data "
                    "loaders share it: the GPUs wait for data",
                    f"#SBATCH --cpus-per-task={count * 12} (all CPUs of the node), or --exclusive",
                )
                return
