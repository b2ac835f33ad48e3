"""TW112: hostname -i often gives a loopback address."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class HostAddressMayBeLoopback(LaunchRule):
    """``hostname -i`` asks the resolver, not the interfaces."""

    id = "TW112"
    severity = "warning"
    category = "launch"
    summary = "hostname -i often gives a loopback address"
    evidence = "reported"
    source = (
        "hostname(1): --ip-address resolves the host name and depends on /etc/hosts; "
        "nebius/nebius-solutions-library#177"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Addresses that the resolver gives."""
        meeting = rendezvous.host(subject)
        if meeting is None or (subject.nodes.known == 1 and (subject.nnodes.known or 1) == 1):
            return
        for command in meeting.word.all_substitutions():
            words = [word.known or "" for word in command.words]
            if "hostname" in [word.rsplit("/", 1)[-1] for word in words] and any(
                w in ("-i", "--ip-address") for w in words
            ):
                yield self.hit(
                    meeting.word,
                    "hostname -i resolves the host's own name, which /etc/hosts often maps to "
                    "127.0.1.1: the other nodes then look for rank 0 on themselves; with several "
                    "addresses the endpoint is not valid at all",
                    'the host name itself: HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
                )
                return
