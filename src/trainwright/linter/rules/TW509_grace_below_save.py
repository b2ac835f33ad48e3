"""TW509: the pod is killed before its last checkpoint is written."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Absent
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.nodepools import on_spot
from trainwright.linter.view.saving import save_seconds, signal_flag


class GraceBelowSave(LaunchRule):
    """30 seconds by default."""

    id = "TW509"
    severity = "warning"
    category = "lifecycle"
    summary = "the grace period is shorter than the checkpoint that the program writes when it is stopped"
    evidence = "verified"
    source = "Kubernetes: terminationGracePeriodSeconds is 30 by default, then SIGKILL; petuum/adaptdl#70"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Programs that save when they are stopped."""
        group = subject.group
        if (
            group is None
            or group.spec.open
            or subject.job.frontend == "TrainJob"
            or group.role in ("launcher", "head")
        ):
            return
        grace = group.grace_seconds
        given = 30 if isinstance(grace, Absent) else grace.known
        seconds = save_seconds(subject.arguments)
        asked = signal_flag(subject.arguments)
        if given is None:
            return
        default = " (the default)" if isinstance(grace, Absent) else ""
        if (
            seconds is not None
            and seconds.value >= given
            and (asked is not None or on_spot(subject.job, group, project))
        ):
            yield self.hit(
                seconds,
                f"a checkpoint takes up to {seconds.value:.0f} s, but the pod is killed {given} s{default} "
                "after SIGTERM: "
                "the last checkpoint is cut off in the middle",
                f"terminationGracePeriodSeconds: {int(seconds.value) + 20} (a spot interruption leaves 120), "
                "and write "
                "to a temporary name that is renamed when complete",
            )
        elif seconds is None and asked is not None and isinstance(grace, Absent):
            yield self.hit(
                asked,
                f"{asked.word.expanded} saves when SIGTERM comes, but the pod has only the default 30 s before it is "
                "killed: a checkpoint with optimizer state rarely fits into that",
                "terminationGracePeriodSeconds above the time of one save (at most 120 on spot nodes)",
            )
