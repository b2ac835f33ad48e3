"""TW610: an annotation for pods stands on the object that makes them."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_ANNOTATIONS = ("karpenter.sh/do-not-disrupt", "karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate",
                "cluster-autoscaler.kubernetes.io/safe-to-evict")  # fmt: skip


class DisruptionAnnotationOnOwner(JobRule):
    """Autoscalers look at pods."""

    id = "TW610"
    severity = "warning"
    category = "scheduling"
    summary = "the annotation against disruption is on the job, not on its pods"
    evidence = "verified"
    source = (
        "Karpenter v1.14 documentation, pod-level controls; KubeRay v1.7 pod.go does not copy annotations of the "
        "cluster to pods"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Annotations of the owner that its pod templates lack."""
        document = subject.object
        if document is None or subject.frontend == "Pod":
            return
        groups = [group for group in subject.groups if group.accelerated] or subject.groups
        for name in _ANNOTATIONS:
            written = document.metadata.get("annotations", name)
            if not written.exists or not groups:
                continue
            lacking = [
                group
                for group in groups
                if not group.annotation(name).exists
                and not group.metadata.open
                and not group.metadata.get("annotations").open
            ]
            if lacking:
                where = ", ".join(group.name or group.role for group in lacking)
                yield self.hit(
                    written,
                    f"{name} is read from pods, and {document.kind} does not pass its own annotations on to "
                    "them: the "
                    f"pods ({where}) are drained as if it were not there",
                    f'metadata: {{annotations: {{{name}: "{written.raw}"}}}} in every pod template',
                )
