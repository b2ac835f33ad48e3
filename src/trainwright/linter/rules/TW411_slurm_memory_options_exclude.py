"""TW411: sbatch options for memory that exclude one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_OPTIONS = ("mem", "mem_per_cpu", "mem_per_gpu")


class SlurmMemoryOptionsExclude(JobRule):
    """One way to ask for memory."""

    id = "TW411"
    severity = "error"
    category = "memory"
    summary = "--mem, --mem-per-cpu and --mem-per-gpu exclude one another"
    evidence = "reproduced"
    source = (
        "sbatch 22.05.8 with two of them in #SBATCH lines: fatal: --mem, --mem-per-cpu, and --mem-per-gpu are "
        "mutually exclusive; sbatch(1)"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Directives in effect."""
        if subject.slurm is None:
            return
        used = [name for name in _OPTIONS if subject.slurm.flags.has(name)]
        last = subject.slurm.flags.find(used[-1]) if len(used) > 1 else None
        if last is not None:
            names = " and ".join(f"--{name.replace('_', '-')}" for name in used)
            yield self.hit(last, f"{names} exclude one another: sbatch refuses the script", "one of them")
