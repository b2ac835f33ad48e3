"""TW130: srun asks for more nodes than the job has."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


class StepLargerThanAllocation(LaunchRule):
    """A step lives inside its allocation."""

    id = "TW130"
    severity = "error"
    category = "launch"
    summary = "srun asks for more nodes than the job has"
    evidence = "verified"
    source = "srun(1): a step cannot use more nodes than the allocation (Requested node count is invalid)"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Nodes of the step against nodes of the job."""
        slurm, step = subject.job.slurm, subject.srun
        if slurm is None or step is None or subject.group is not None:
            return
        asked, held = step.flags.number("nodes"), slurm.nodes.known
        if isinstance(asked, Known) and held and asked.value > held:
            yield self.hit(
                asked,
                f"srun asks for {asked.value} nodes, but the job has {held}: the step is refused",
                f"--nodes={held}, or #SBATCH --nodes={asked.value}",
            )
