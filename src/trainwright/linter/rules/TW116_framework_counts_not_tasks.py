"""TW116: the trainer counts other nodes or devices than Slurm starts."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Absent, Known
from trainwright.linter.view.job import JobLaunch


def _counts_itself(launch: JobLaunch) -> bool:
    """Whether the program is started once per process, by srun or as a pod's own command."""
    if launch.tool:
        return False
    return launch.srun is not None if launch.group is None else not launch.job.spreads(launch.group)


class FrameworkCountsNotTasks(LaunchRule):
    """Lightning and NeMo take their world from Slurm's tasks."""

    id = "TW116"
    severity = "error"
    category = "launch"
    summary = "the trainer counts other nodes or devices than Slurm starts"
    evidence = "verified"
    source = "lightning/fabric/plugins/environments/slurm.py, validate_settings; Lightning-AI/pytorch-lightning#10098"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Options of the program against what starts."""
        if not _counts_itself(subject):
            return
        arguments, nodes = subject.arguments, subject.nodes.known
        told = arguments.number("trainer.num_nodes")
        if isinstance(told, Absent) and arguments.has("devices", "gpus", "accelerator", "num_devices"):
            told = arguments.number("num_nodes")
        if isinstance(told, Known) and nodes and told.value != nodes and told.value > 0:
            yield self.hit(
                told,
                f"the trainer expects {told.value} node{'s' if told.value > 1 else ''}, but {nodes} "
                f"start{'s' if nodes == 1 else ''}: it stops with an error, or waits for ranks that "
                "never start",
                f"#SBATCH --nodes={told.value}" if subject.job.slurm is not None else f"num_nodes={nodes}",
            )
        devices, tasks = arguments.number("trainer.devices"), subject.copies_per_node
        if isinstance(devices, Absent) and arguments.has("num_nodes") and arguments.has("accelerator", "strategy"):
            devices = arguments.number("devices")
        if (
            subject.srun is None
            or not isinstance(devices, Known)
            or devices.value < 1
            or not tasks.known
            or devices.value == tasks.known
        ):
            return
        yield self.hit(
            devices,
            f"the trainer wants {devices.value} device{'s' if devices.value > 1 else ''} per node, but "
            f"srun starts {tasks.known} task{'s' if tasks.known > 1 else ''} on each: Lightning needs "
            "one task per device",
            f"#SBATCH --ntasks-per-node={devices.value}",
            severity=None if (nodes or 1) > 1 or tasks.known > 1 else "warning",
        )
