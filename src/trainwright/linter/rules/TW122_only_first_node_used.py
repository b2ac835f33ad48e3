"""TW122: several nodes are allocated, and only the first one is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.values import Absent, Known
from trainwright.linter.view.job import TrainingJob

_REACHES = {
    "srun",
    "mpirun",
    "mpiexec",
    "pdsh",
    "ssh",
    "clush",
    "parallel",
    "ray",
    "orterun",
    "prun",
    "jsrun",
    "parallel-ssh",
    "pssh",
    "sbatch",
    "submitit",
    "dask",
    "scontrol",
}


class OnlyFirstNodeUsed(JobRule):
    """Without srun the other nodes do nothing."""

    id = "TW122"
    severity = "warning"
    category = "launch"
    summary = "several nodes are allocated, and only the first one is used"
    evidence = "verified"
    source = "sbatch(1): the batch script runs on the first node of the allocation only"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Multi-node allocations without anything that leaves the first node."""
        slurm, script = subject.slurm, subject.script
        if slurm is None or script is None or (slurm.nodes.known or 0) < 2 or not subject.training_launches:
            return
        if any(
            word.known is not None and word.known.rsplit("/", 1)[-1] in _REACHES
            for command in script.plain.commands
            for word in command.words
        ):
            return
        if any(
            launch.srun
            or launch.tool in ("mpirun", "deepspeed")
            or (launch.nnodes.known or 1) > 1
            or not isinstance(launch.nnodes, Known | Absent)
            for launch in subject.training_launches
        ):
            return
        yield self.hit(
            subject.training_launches[0],
            f"{slurm.nodes.known} nodes are allocated, but this command runs on the first one only: "
            f"{(slurm.nodes.known or 1) - 1} nodes idle",
            "start it with srun (one torchrun per node, with --nnodes and a rendezvous), or #SBATCH --nodes=1",
        )
