"""TW139: a node rank that is not below the number of nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class NodeRankOutOfRange(LaunchRule):
    """Ranks count from 0."""

    id = "TW139"
    severity = "error"
    category = "launch"
    summary = "a node rank that is not below the number of nodes"
    evidence = "verified"
    source = "torch.distributed.run, static rendezvous (2.15): ranks are 0 … nnodes-1"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Literal ranks against literal node counts."""
        rank, nodes = subject.flags.number("node_rank", "machine_rank"), subject.nnodes
        if (
            isinstance(rank, Known)
            and isinstance(nodes, Known)
            and rank.value >= nodes.value
            and rendezvous.is_static(subject)
        ):
            yield self.hit(
                rank,
                f"node rank {rank.value} of {nodes.value} node{'s' if nodes.value > 1 else ''}: ranks "
                f"are 0 to {nodes.value - 1}, so the rendezvous waits for one that does not exist",
                f"0 … {nodes.value - 1}",
            )
