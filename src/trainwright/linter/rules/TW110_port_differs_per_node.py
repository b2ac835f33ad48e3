"""TW110: every node picks its own rendezvous port."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.shell.words import Reference
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class PortDiffersPerNode(LaunchRule):
    """The port must be chosen once."""

    id = "TW110"
    severity = "error"
    category = "launch"
    summary = "every node picks its own rendezvous port"
    evidence = "reported"
    source = "a port computed in each task is a different number in each task; pytorch/pytorch#76069"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Ports from a source that differs between tasks."""
        nodes, meeting = rendezvous.nodes_at_least_two(subject), rendezvous.port(subject)
        if nodes is None or meeting is None:
            return
        for found in rendezvous.by_each_task(meeting):
            source = found.name
            random_port = (
                source in ("RANDOM", "SRANDOM", "$", "BASHPID", "EPOCHSECONDS")
                if isinstance(found, Reference)
                else source in ("shuf", "date", "jot", "get_free_port", "openssl", "ss", "netstat")
                or source.startswith("python")
            )
            if random_port:
                shown = f"${source}" if isinstance(found, Reference) else f"$({source} …)"
                yield self.hit(
                    meeting.word,
                    f"the port comes from {shown}, which each of the {nodes} nodes works out for "
                    "itself: they all use different ports and never meet",
                    "compute it once before srun: export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
                    if subject.group is None
                    else "one fixed port, for example 29500",
                )
                return
