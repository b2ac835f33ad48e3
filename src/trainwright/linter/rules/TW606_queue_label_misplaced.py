"""TW606: the Kueue queue is named where Kueue does not look."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_NAME = "kueue.x-k8s.io/queue-name"
_OTHERS = (
    "kueue.x-k8s.io/queue",
    "kueue.x-k8s.io/local-queue",
    "kueue.x-k8s.io/queueName",
    "kueue.sigs.k8s.io/queue-name",
)


class QueueLabelMisplaced(JobRule):
    """A label of the job object."""

    id = "TW606"
    severity = "warning"
    category = "scheduling"
    summary = "the Kueue queue name is not a label of the job itself"
    evidence = "verified"
    source = "Kueue v0.19: constants.QueueLabel, read from the labels of the job object"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Annotations, pod templates and similar names."""
        document = subject.object
        if document is None or subject.frontend in (
            "Pod",
            "Deployment",
            "StatefulSet",
            "LeaderWorkerSet",
            "DaemonSet",
        ):
            return
        labels = document.metadata.get("labels")
        if labels.get(_NAME).exists or labels.open or labels.unknown or not subject.ends:
            return
        places = [document.metadata.get("annotations", _NAME)]
        places += [labels.get(name) for name in _OTHERS]
        places += [group.metadata.get(part, _NAME) for group in subject.groups for part in ("labels", "annotations")]
        found = next((node for node in places if node.exists), None)
        if found is not None:
            yield self.hit(
                found,
                f"Kueue reads the label {_NAME} of the {document.kind} itself, and there is none: the job is "
                "not queued "
                "and starts at once, outside every quota",
                f"metadata: {{labels: {{{_NAME}: {found.raw}}}}} of the {document.kind}",
            )
