"""TW105: the nodes are told to meet at localhost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch

_INSTEAD = 'the first node of the allocation: $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


def _is_loopback(host: str | None) -> bool:
    return host is not None and (
        host in ("localhost", "::1", "0.0.0.0", "ip6-localhost") or bool(re.fullmatch(r"127\.\d+\.\d+\.\d+", host))
    )


class MeetsOnLoopback(LaunchRule):
    """A loopback address is a different machine on every node."""

    id = "TW105"
    severity = "error"
    category = "launch"
    summary = "the nodes are told to meet at localhost"
    evidence = "reported"
    source = "torch.distributed.run (PyTorch 2.15): every node connects to itself; pytorch/pytorch#76069"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Launches that certainly span nodes and meet at a loopback address."""
        nodes = rendezvous.nodes_at_least_two(subject)
        meeting = rendezvous.host(subject)
        if nodes is None or meeting is None or not _is_loopback(meeting.host):
            return
        sure = subject.group is not None or subject.job.slurm is not None
        yield self.hit(
            meeting.word,
            f"{nodes} nodes meet at {meeting.host}, which on every node is that node itself: they "
            "never find each other, while all accelerators are held",
            _INSTEAD
            if subject.group is None
            else "the DNS name of rank 0's pod (most operators set MASTER_ADDR: remove yours)",
            severity=None if sure else "warning",
        )
