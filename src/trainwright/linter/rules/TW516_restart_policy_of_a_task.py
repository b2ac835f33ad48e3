"""TW516: a pod of a batch job restarts for ever."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class RestartPolicyOfATask(PodRule):
    """A pod's default is Always."""

    id = "TW516"
    severity = "warning"
    category = "lifecycle"
    summary = "a batch pod has restartPolicy Always, or none, which is the same"
    evidence = "verified"
    source = (
        "Kubernetes 1.36: the Job API refuses Always; volcano-sh/volcano: no default of its own, so a "
        "failing container "
        "restarts in place and PodFailed never fires"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Jobs and Volcano tasks."""
        job, group = subject.job, subject.group
        policy = group.spec.get("restartPolicy")
        if (
            not group.template.exists
            or group.spec.open
            or policy.unknown
            or job.object is None
            or job.object.templated
        ):
            return
        if not (policy.absent or policy.string == "Always") or not any(c.image.exists for c in group.main_containers):
            return
        said = "Always" if policy.exists else "none, so Kubernetes takes Always"
        if job.frontend in ("Job", "CronJob"):
            yield self.hit(
                policy if policy.exists else group.spec,
                f"restartPolicy is {said}: a Job may only have OnFailure or Never, so the API server refuses it",
                "restartPolicy: Never",
                "error",
            )
        elif job.frontend == "VolcanoJob":
            yield self.hit(
                policy if policy.exists else group.spec,
                f"restartPolicy is {said}: a failed container starts again in place, PodFailed never happens and the "
                "job's policies (RestartJob, AbortJob) never act; a finished one starts again too",
                "restartPolicy: Never (or OnFailure)",
            )
