"""TW115: --ntasks is not nodes × --ntasks-per-node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import TrainingJob


class NtasksContradictsPerNode(JobRule):
    """With both given, ``--ntasks`` wins."""

    id = "TW115"
    severity = "error"
    category = "launch"
    summary = "--ntasks is not nodes × --ntasks-per-node"
    evidence = "verified"
    source = (
        "sbatch(1): --ntasks takes precedence and --ntasks-per-node becomes a maximum; "
        "Lightning-AI/pytorch-lightning#20391"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Three numbers that do not multiply."""
        slurm = subject.slurm
        if slurm is None or not subject.training_launches:
            return
        nodes, each, total = slurm.nodes.known, slurm.ntasks_per_node.known, slurm.ntasks
        if not nodes or not each or not isinstance(total, Known) or total.value == nodes * each:
            return
        fewer = total.value < nodes * each
        yield self.hit(
            total,
            f"--ntasks={total.value}, but --nodes={nodes} × --ntasks-per-node={each} is "
            f"{nodes * each}: Slurm takes --ntasks, so "
            + (
                f"only {total.value} task{'s' if total.value > 1 else ''} start and wait for the other "
                f"{nodes * each - total.value}"
                if fewer
                else "the job needs more nodes than it asks for and is refused"
            ),
            f"leave --ntasks out, or --ntasks={nodes * each}",
        )
