"""TW142: a shell variable in an #SBATCH line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class VariableInDirective(JobRule):
    """Slurm reads directives, no shell does."""

    id = "TW142"
    severity = "warning"
    category = "launch"
    summary = "a shell variable in an #SBATCH line"
    evidence = "verified"
    source = "sbatch(1): directives are not processed by a shell; only filename patterns such as %j are replaced"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Shell notation in directives."""
        if subject.slurm is None:
            return
        for flag in subject.slurm.flags:
            written = flag.value.written if flag.value is not None else ""
            if re.search(r"\$(\w+|\{\w+\}|\()", written) and flag.name != "wrap":
                path = flag.name in ("output", "error", "chdir", "input")
                yield self.hit(
                    flag,
                    f"no shell reads #SBATCH lines, so {written} stays as it is: "
                    + (
                        "the path does not exist, and the job fails at start without a log"
                        if path
                        else "sbatch refuses the value"
                    ),
                    "a fixed path with %x, %j and the like"
                    if path
                    else "a fixed value, or the option on the command line of sbatch",
                )
