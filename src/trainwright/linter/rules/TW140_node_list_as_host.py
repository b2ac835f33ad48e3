"""TW140: Slurm's compressed node list used as a host name."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class NodeListAsHost(LaunchRule):
    """``node[01-04]`` is no host."""

    id = "TW140"
    severity = "error"
    category = "launch"
    summary = "Slurm's compressed node list used as a host name"
    evidence = "verified"
    source = (
        "sbatch(1): SLURM_JOB_NODELIST is a compressed list such as node[01-04]; scontrol show hostnames expands it"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Hosts that are a list."""
        meeting = rendezvous.host(subject)
        if meeting is None or meeting.host is not None or rendezvous.nodes_at_least_two(subject) is None:
            return
        if any(True for _ in meeting.word.all_substitutions()):
            return
        for reference in meeting.word.all_references():
            if reference.name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"):
                cut = "%" in reference.span.quoted or ":" in reference.span.quoted
                yield self.hit(
                    meeting.word,
                    f"${reference.name} is a compressed list (node[01-04]), "
                    + ("and cutting it works only for some lists" if cut else "not a host name: it does not resolve"),
                    'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
                    severity="warning" if cut else None,
                )
                return
