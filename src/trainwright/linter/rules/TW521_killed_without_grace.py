"""TW521: training pods are killed at once."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Known


class KilledWithoutGrace(PodRule):
    """A grace period of 0 is SIGKILL."""

    id = "TW521"
    severity = "warning"
    category = "lifecycle"
    summary = "a grace period of a few seconds kills training without a checkpoint"
    evidence = "verified"
    source = "Kubernetes API, terminationGracePeriodSeconds: 0 kills at once"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated pods of jobs."""
        grace = subject.group.grace_seconds
        if isinstance(grace, Known) and grace.value < 10 and subject.group.accelerated and subject.job.ends:
            yield self.hit(
                grace,
                f"the pod is killed {grace.value} s after it is told to stop: no checkpoint is finished in "
                "that time, and "
                "files that are being written are cut off",
                "terminationGracePeriodSeconds above the time of one checkpoint (at most 120 on spot nodes)",
            )
