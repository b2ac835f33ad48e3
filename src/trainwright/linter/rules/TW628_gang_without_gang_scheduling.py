"""TW628: nothing makes the pods of a gang start together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import spans_nodes

_QUEUES = ("kueue.x-k8s.io/queue-name", "volcano.sh/queue-name", "ray.io/scheduler-name", "runai/queue",
           "scheduling.x-k8s.io/"
           "pod-group"
           "", "yunikorn.apache.org/app-id", "applicationId", "pod-group.scheduling.sigs.k8s.io")  # fmt: skip


class GangWithoutGangScheduling(JobRule):
    """Pods are placed one by one."""

    id = "TW628"
    severity = "note"
    category = "scheduling"
    summary = "the pods of a multi-node job are placed one by one, without a gang"
    evidence = "verified"
    source = (
        "Kubernetes 1.36 default scheduler places pods one by one; Kueue, Volcano and coscheduling admit a "
        "gang at once"
    )
    frontends: ClassVar[tuple[str, ...]] = ("Job", "JobSet", "MPIJob", "PyTorchJob", "RayCluster", "RayJob")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Accelerated jobs of several nodes without a queue, a scheduler of their own or a pod group."""
        document = subject.object
        if document is None or not subject.accelerated or not subject.multi_node or not _trains(subject):
            return
        if document.templated or any(group.metadata.open or group.spec.open for group in subject.groups):
            return
        places = [document.metadata.get("labels"), document.metadata.get("annotations")]
        places += [group.metadata.get(part) for group in subject.groups for part in ("labels", "annotations")]
        if any(key.raw.startswith(_QUEUES) for place in places for key, _ in place.pairs()):
            return
        if any(group.spec.get("schedulerName").exists for group in subject.groups):
            return
        if document.get("spec", "runPolicy", "schedulingPolicy").exists or project.related(document, "PodGroup"):
            return
        yield self.hit(
            subject,
            f"nothing admits the {subject.nodes.known} pods of this job together: when only some fit, they "
            "hold their "
            "accelerators and wait, and two such jobs can block each other for ever",
            "the label kueue.x-k8s.io/queue-name, or Volcano (schedulerName and a PodGroup)",
        )


def _trains(job: TrainingJob) -> bool:
    """Whether its pods certainly work together: a Ray cluster of fixed size with whole machines counts as one "
    "gang."""
    if not job.frontend.startswith("Ray"):
        return spans_nodes(job)
    body = job.get("spec") if job.frontend == "RayCluster" else job.get("spec", "rayClusterSpec")
    scales = body.get("enableInTreeAutoscaling")
    return not scales.boolean and not scales.unknown and (job.accelerators_per_node.known or 0) > 1
