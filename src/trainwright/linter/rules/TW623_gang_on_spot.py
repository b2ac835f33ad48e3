"""TW623: a job of several nodes on spot capacity."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.network import spans_nodes
from trainwright.linter.view.nodepools import on_spot
from trainwright.linter.view.saving import resume_flag, resumes_by_itself


class GangOnSpot(PodRule):
    """One interruption stops all ranks."""

    id = "TW623"
    severity = "warning"
    category = "scheduling"
    summary = "one interruption of a spot node stops a job of several nodes"
    evidence = "verified"
    source = "EC2 Spot documentation: each instance is interrupted on its own; torch.distributed needs every rank"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Multi-node groups that certainly run on spot."""
        group, job = subject.group, subject.job
        if not group.accelerated or not job.ends or (group.count.known or 0) < 2 or not spans_nodes(job):
            return
        spot = on_spot(job, group, project)
        if spot is not None:
            resumes = any(
                resume_flag(launch.arguments) or resumes_by_itself(launch) for launch in job.training_launches
            )
            yield self.hit(
                spot,
                f"{group.count.known} nodes on spot: each may be taken away at two minutes' notice, and one "
                "is enough to "
                "stop all ranks while the others stay held",
                "on-demand or reserved capacity for gangs, or frequent checkpoints and an elastic launcher",
                "note" if resumes else "warning",
            )
