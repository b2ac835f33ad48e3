"""TW516: a pod of a batch job restarts for ever."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.fields import is_fragment


class RestartPolicyOfATask(PodRule):
    """A pod's default is Always."""

    id = "TW516"
    severity = "warning"
    category = "lifecycle"
    summary = "a batch pod has restartPolicy Always, or none, which is the same"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/apis/batch/validation/validation.go: a Job's restartPolicy is OnFailure or "
        "Never; volcano-sh/volcano pkg/webhooks/admission/jobs/mutate/mutate_job.go: sets no restartPolicy"
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
            or is_fragment(job.object, project)
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
