"""TW510: a grace period longer than a spot interruption leaves."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Known
from trainwright.linter.view.nodepools import on_spot


class GraceAboveSpotNotice(PodRule):
    """EC2 gives two minutes."""

    id = "TW510"
    severity = "warning"
    category = "lifecycle"
    summary = "the grace period is longer than the two minutes a spot interruption leaves"
    evidence = "verified"
    source = "EC2 documentation, Spot Instance interruption notices: two minutes before the instance is stopped"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Pods that certainly run on spot."""
        grace = subject.group.grace_seconds
        if not isinstance(grace, Known) or grace.value <= 120 or not subject.group.accelerated:
            return
        if on_spot(subject.job, subject.group, project) is not None:
            yield self.hit(
                grace,
                f"on spot capacity the node is gone two minutes after the notice: {grace.value} s are granted by the "
                "kubelet, but not by EC2, so the last checkpoint has to be written within 120 s",
                "terminationGracePeriodSeconds: 110, and checkpoints that fit into it",
            )
