"""TW523: a long Slurm job that loses everything at its time limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.saving import resume_flag


class LongJobWithoutWayBack(JobRule):
    """Nothing resumes, nothing warns."""

    id = "TW523"
    severity = "note"
    category = "lifecycle"
    summary = "a long Slurm job neither resumes, nor is warned of its time limit"
    evidence = "verified"
    source = "sbatch(1): --time kills the job, --signal warns it, --requeue starts it again"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Jobs of a day or more with accelerators."""
        slurm = subject.slurm
        minutes = slurm.minutes.known if slurm is not None else None
        launches = subject.training_launches
        if slurm is None or minutes is None or minutes < 24 * 60 or not subject.accelerated or not launches:
            return
        if slurm.flags.has("requeue", "signal") or any(
            resume_flag(launch.arguments) or launch.arguments.open or launch.program.operands for launch in launches
        ):
            return
        if any(flag.name.startswith("config") for launch in launches for flag in launch.arguments):
            return
        yield self.hit(
            slurm.minutes.span,
            f"after {minutes / 60:.0f} hours Slurm kills the job, whatever it is doing: the program is not "
            "told to resume, "
            "and no signal announces the end",
            "--signal=USR1@300 with srun, --requeue with --open-mode=append, and the program's option to resume",
        )
