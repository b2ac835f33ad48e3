"""TW132: an #SBATCH option that does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import ClassVar

from trainwright.facts import slurm_options
from trainwright.linter.finding import Edit
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.shell.flags import Flag
from trainwright.linter.text import Span
from trainwright.linter.view.job import TrainingJob


def _edit(flag: Flag, name: str, right: str) -> Edit | None:
    """Replace the option's name and nothing else."""
    start = flag.word.span.start + 2
    return Span(flag.word.span.text, start, start + len(name)).edit(right)


class DirectiveNameUnknown(JobRule):
    """sbatch refuses options it does not know."""

    id = "TW132"
    severity = "error"
    category = "launch"
    summary = "an #SBATCH option that does not exist"
    evidence = "verified"
    source = (
        "SchedMD/slurm src/common/slurm_opt.c, 26.05: long options use hyphens and are matched exactly or "
        "by unique prefix"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Directives whose name is almost an option."""
        if subject.slurm is None:
            return
        known, others = slurm_options.names(), slurm_options.others()
        for flag in subject.slurm.flags:
            written = flag.word.written.split("=", 1)[0]
            name = written.removeprefix("--")
            if not written.startswith("--") or not name:
                continue
            if any(option.startswith(name) for option in (*known, *others)):
                continue
            close = (
                name.replace("_", "-")
                if name.replace("_", "-") in known
                else next(iter(get_close_matches(name, known, 1, 0.88)), "")
            )
            if close and not name.startswith("container"):
                yield self.hit(
                    flag,
                    f"sbatch has no option --{name}: the script is refused",
                    f"--{close}",
                    fix=[_edit(flag, name, close)],
                )
