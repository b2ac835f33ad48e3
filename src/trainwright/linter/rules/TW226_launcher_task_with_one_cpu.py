"""TW226: one CPU for all processes of a node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.values import Absent
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
            or slurm.flags.has("cpus_per_gpu", "mincpus", "whole", "ntasks", "cores_per_socket", "extra_node_info")
            or slurm.tasks_per_node.known != 1
        ):
            return
        for launch in subject.training_launches:
            count = launch.processes_per_node.known or 0
            stated = slurm.flags.number("cpus_per_task")
            if launch.srun is not None and launch.srun.flags.has("cpus_per_task", "cpus_per_gpu", "exclusive"):
                stated = launch.srun.flags.number("cpus_per_task")
                if isinstance(stated, Absent):
                    continue
            # Without a step of its own the launcher sees all CPUs of an exclusive node.
            if slurm.exclusive and (isinstance(stated, Absent) or launch.srun is None):
                continue
            if launch.tool not in ("torchrun", "accelerate", "deepspeed") or count < 2:
                continue
            if not isinstance(stated, Absent) and (stated.known is None or stated.known >= count):
                continue
            has = "one CPU (Slurm's default)" if isinstance(stated, Absent) else f"{stated.known} CPU(s)"
            yield self.hit(
                launch if isinstance(stated, Absent) else stated,
                f"the task gets {has}, and {count} processes with their data loaders share it: the GPUs wait "
                "for data",
                f"#SBATCH --cpus-per-task={count * 12} (all CPUs of the node), or --exclusive",
            )
            return
