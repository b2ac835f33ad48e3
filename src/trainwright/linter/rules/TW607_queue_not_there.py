"""TW607: a queue that is not in the job's namespace."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.errors import did_you_mean
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class QueueNotThere(JobRule):
    """LocalQueues belong to a namespace."""

    id = "TW607"
    severity = "warning"
    category = "scheduling"
    summary = "the job's queue does not exist in its namespace"
    evidence = "verified"
    source = "Kueue v0.19: LocalQueue is namespaced; Volcano v1.15: Queue is cluster-scoped and must exist"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Kueue and Volcano queues, when the set of files defines queues at all."""
        document = subject.object
        if document is None:
            return
        label = document.metadata.get("labels", "kueue.x-k8s.io/queue-name")
        queues = project.related(document, "LocalQueue")
        if label.string is not None and queues and all(queue.object_name for queue in queues):
            same = [queue for queue in queues if queue.object_name == label.string]
            here = [q for q in same if q.namespace is None or document.namespace in (None, q.namespace)]
            if same and not here:
                yield self.hit(
                    label,
                    f"the LocalQueue {label.string!r} is in namespace {same[0].namespace!r} and the job in "
                    f"{document.namespace!r}: the job stays suspended",
                    f"a LocalQueue in {document.namespace!r}, or the job in {same[0].namespace!r}",
                )
            elif not same and any(queue.path == document.path for queue in queues):
                names = ", ".join(sorted({queue.object_name or "" for queue in queues}))
                yield self.hit(
                    label,
                    f"there is no LocalQueue {label.string!r} beside the job (there is {names}): the job "
                    "stays suspended",
                    f"{label.string!r} as a LocalQueue in the job's namespace, or the right name",
                    severity="error" if did_you_mean(label.string, names.split(", ")).startswith("did") else None,
                )
        name = subject.get("spec", "queue")
        volcano = [q for q in project.related(document, "Queue") if q.group == "scheduling.volcano.sh"]
        if subject.frontend == "VolcanoJob" and name.string not in (None, "default") and volcano:
            known = sorted({queue.object_name or "" for queue in volcano})
            if name.string not in known:
                yield self.hit(
                    name,
                    f"there is no Queue {name.string!r} beside the job (there is {', '.join(known)}): Volcano "
                    "refuses a "
                    "job of an unknown queue",
                    f"queue: {known[0]}",
                )
