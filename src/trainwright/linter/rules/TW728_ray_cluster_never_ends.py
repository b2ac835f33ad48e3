"""TW728: a Ray cluster of fixed size holds its accelerators until somebody deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.cost import an_hour_of
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import PodGroup


class RayClusterNeverEnds(JobRule):
    """A RayCluster has no end; a RayJob has."""

    id = "TW728"
    severity = "note"
    category = "operators"
    summary = "a Ray cluster keeps its accelerators after the work is done"
    evidence = "verified"
    source = (
        "ray-project/kuberay v1.6 RayJob: shutdownAfterJobFinishes, ttlSecondsAfterFinished; RayCluster has neither"
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayCluster", "RayJob")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Clusters whose accelerated workers cannot be scaled to none."""
        document = subject.object
        if document is None or document.get("spec").open or document.get("spec", "suspend").boolean:
            return
        if subject.frontend == "RayJob":
            yield from self._job(subject, project)
            return
        scales = document.get("spec", "enableInTreeAutoscaling")
        for group in subject.groups:
            count = _kept(group, bool(scales.boolean) or scales.unknown)
            if not group.accelerated or not count or (group.accelerators.known or 0) < 2:
                continue
            devices = count * (group.accelerators.known or 0)
            yield self.hit(
                group.entry.get("groupName"),
                f"a RayCluster lives until it is deleted: {count} worker{'s' if count > 1 else ''} with "
                f"{devices} accelerators{an_hour_of(devices, subject, group, project)} stay, and are paid, after "
                "the last job",
                "a RayJob with shutdownAfterJobFinishes: true, or enableInTreeAutoscaling: true with minReplicas: 0",
            )

    def _job(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """A RayJob that leaves its cluster behind."""
        switch = subject.get("spec", "shutdownAfterJobFinishes")
        if (switch.exists and switch.boolean is not False) or subject.get("spec", "clusterSelector").exists:
            return
        queued = any(key.raw.startswith("kueue.x-k8s.io/") for key, _ in subject.get("metadata", "labels").pairs())
        if queued or subject.get("spec", "deletionStrategy").exists:
            return  # TW703 says that such a job is refused.
        for group in subject.workers:
            each, count = group.accelerators.known or 0, group.count.known or 0
            if group.accelerated and each * count > 1:
                yield self.hit(
                    switch if switch.exists else subject.get("spec", "entrypoint"),
                    f"the cluster of a RayJob stays when the job is done unless it is told to go: {count} worker"
                    f"{'s' if count > 1 else ''} with {each * count} accelerators"
                    f"{an_hour_of(each * count, subject, group, project)} are held until somebody deletes it",
                    "shutdownAfterJobFinishes: true, with ttlSecondsAfterFinished for looking at it",
                    severity="warning",
                )
                return


def _kept(group: PodGroup, scales: bool) -> int:
    """Workers that stay when nothing runs."""
    value = group.entry.get("minReplicas").as_integer() if scales else group.count
    return value.known or 0
