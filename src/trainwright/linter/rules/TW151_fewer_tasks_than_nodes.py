"""TW151: fewer tasks than nodes, so Slurm gives fewer nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class FewerTasksThanNodes(JobRule):
    """A node without a task is not allocated."""

    id = "TW151"
    severity = "error"
    category = "launch"
    summary = "--ntasks is smaller than --nodes"
    evidence = "verified"
    source = "SchedMD/slurm src/sbatch/opt.c: can't run %d processes on %d nodes, setting nnodes to %d"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The two numbers of the directives."""
        slurm = subject.slurm
        tasks, nodes = (slurm.ntasks.known, slurm.nodes.known) if slurm is not None else (None, None)
        if slurm is None or not tasks or not nodes or tasks >= nodes:
            return
        yield self.hit(
            slurm.ntasks,
            f"{tasks} task{'s' if tasks > 1 else ''} cannot run on {nodes} nodes: sbatch prints a warning and "
            "asks for "
            f"{tasks} node{'s' if tasks > 1 else ''} only, and a launcher that is told {nodes} waits for the others",
            f"--ntasks-per-node=1 without --ntasks, or --ntasks={nodes}",
        )
