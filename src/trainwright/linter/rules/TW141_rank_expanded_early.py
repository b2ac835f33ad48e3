"""TW141: the rank is expanded before srun, so every task gets rank 0."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch

_PER_TASK = frozenset({"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"})
_OPTIONS = frozenset(
    {"rank", "local_rank", "global_rank", "node_rank", "machine_rank", "process_id", "gpu", "device"}
)
_INSTEAD = "srun bash -c '… ${} …' in single quotes, so that each task expands it"


class RankExpandedEarly(LaunchRule):
    """What the batch shell expands is the same for all tasks."""

    id = "TW141"
    severity = "error"
    category = "launch"
    summary = "the rank is expanded before srun, so every task gets rank 0"
    evidence = "verified"
    source = "sbatch(1): SLURM_PROCID and SLURM_LOCALID of the batch step are 0; each task has its own"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Ranks from variables that the batch shell expands."""
        if (
            subject.srun is None
            or subject.group is not None
            or subject.tool
            or (subject.nodes.known or 1) * (subject.copies_per_node.known or 1) < 2
        ):
            return
        for flag in subject.arguments:
            if flag.name in _OPTIONS and flag.value is not None:
                for reference in flag.value.references:
                    if reference.name in _PER_TASK and reference.shell == "batch":
                        yield self.hit(
                            flag,
                            f"the batch shell replaces ${reference.name} once, by 0: every task gets --{flag.name} 0",
                            _INSTEAD.format(reference.name),
                        )
        for name in ("RANK", "LOCAL_RANK"):
            variable = subject.env(name)
            if variable is None or variable.place is None:
                continue
            for word in variable.words:
                for reference in word.references:
                    if reference.name in _PER_TASK and reference.shell == "batch":
                        yield self.hit(
                            variable,
                            f"the batch shell sets {name} once, from its own {reference.name}, which "
                            f"is 0: every task gets {name}=0",
                            _INSTEAD.format(reference.name),
                        )
