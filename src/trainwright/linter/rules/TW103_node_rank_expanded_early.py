"""TW103: the node rank is filled in by the batch shell, once for all nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.shell.words import Variable
from trainwright.linter.view.job import JobLaunch

_PER_TASK = frozenset({"SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"})


def _set_once(variable: Variable | None) -> str:
    """The per-task variable that the batch shell itself puts into this one, before any task starts; "" if none."""
    words = variable.words if variable is not None and variable.place is not None else ()
    references = [reference for word in words for reference in word.references]
    return next((r.name for r in references if r.name in _PER_TASK and r.shell == "batch"), "")


class NodeRankExpandedEarly(LaunchRule):
    """``$SLURM_NODEID`` must be expanded by the task, not by the batch shell."""

    id = "TW103"
    severity = "error"
    category = "launch"
    summary = "the node rank is expanded before srun, so every node gets rank 0"
    evidence = "verified"
    source = "sbatch(1): SLURM_NODEID of the batch step is 0; pytorch/pytorch#73656"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """A per-task variable that the batch shell expands."""
        if subject.srun is None or (subject.nodes.known or 2) < 2:
            return
        if subject.rendezvous_backend in ("c10d", "etcd", "etcd-v2"):
            return  # The rendezvous hands out the ranks, and what the option says is not read.
        for name in ("node_rank", "machine_rank"):
            flag = subject.flags.find(name)
            if flag is None or flag.value is None:
                continue
            for reference in flag.value.references:
                if reference.name in _PER_TASK:
                    if reference.shell == "batch":
                        yield self.hit(
                            flag,
                            f"the batch shell replaces ${reference.name} before srun starts "
                            f"the tasks, so every node gets --{name} 0 and the rendezvous never completes",
                            f"srun bash -c '… --{name}=${reference.name} …' in single quotes, or "
                            f"\\${reference.name} inside double quotes",
                        )
                    continue
                variable = subject.env(reference.name)
                source = _set_once(variable)
                if variable is not None and source:
                    yield self.hit(
                        variable,
                        f"the batch shell sets {reference.name} once, from its own {source}, which is 0: every node "
                        f"gets --{name} 0 and the rendezvous never completes",
                        f"srun bash -c '… --{name}=${source} …' in single quotes, without {reference.name}",
                    )
