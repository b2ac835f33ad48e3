"""TW703: suspending a RayJob deletes its cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class RayjobQueuedKeepsCluster(ObjectRule):
    """``suspend`` needs ``shutdownAfterJobFinishes``."""

    id = "TW703"
    severity = "error"
    category = "operators"
    summary = "a queued or suspended RayJob that would keep its cluster"
    evidence = "verified"
    source = (
        'KubeRay 1.6 controllers/ray/utils/validation.go: "a RayJob with shutdownAfterJobFinishes set to'
        ' false is not allowed to be suspended"; Kueue, RayJob webhook'
    )
    kinds: ClassVar[tuple[str, ...]] = ("RayJob",)
    groups: ClassVar[tuple[str, ...]] = ("ray.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Suspension and time to live without shutdown."""
        spec = subject.get("spec")
        shutdown = spec.get("shutdownAfterJobFinishes")
        if shutdown.boolean or shutdown.unknown or spec.get("clusterSelector").exists or spec.open:
            return
        queue = subject.metadata.get("labels", "kueue.x-k8s.io/queue-name")
        suspend, ttl = spec.get("suspend"), spec.get("ttlSecondsAfterFinished")
        place = next((node for node in (shutdown, suspend if suspend.boolean else queue) if node.exists), None)
        fix = [shutdown.span.edit("true")] if shutdown.boolean is False else ()
        if (suspend.boolean or queue.exists) and place is not None:
            yield self.hit(
                place,
                ("the job is suspended" if suspend.boolean else "Kueue suspends the job until it is admitted")
                + " and shutdownAfterJobFinishes is not true: the operator refuses to suspend a RayJob that keeps "
                "its "
                "cluster, and it never runs",
                "shutdownAfterJobFinishes: true",
                fix=fix,
            )
        elif (ttl.integer or 0) > 0 and not spec.get("deletionStrategy").exists:
            yield self.hit(
                ttl,
                "ttlSecondsAfterFinished says when the cluster is deleted, but shutdownAfterJobFinishes is not "
                "true: the operator refuses the job",
                "shutdownAfterJobFinishes: true",
                fix=fix,
            )
