"""TW726: mpirun starts before the workers' nodes exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class LauncherDoesNotWait(JobRule):
    """The launcher of an MPIJob starts at once unless it is told to wait."""

    id = "TW726"
    severity = "note"
    category = "operators"
    summary = "an MPIJob's launcher starts while its workers still wait for nodes"
    evidence = "verified"
    source = (
        "kubeflow/mpi-operator@v0.8.0 pkg/apis/kubeflow/v2beta1/types.go: launcherCreationPolicy AtStartup "
        "(default) or WaitForWorkersReady"
    )
    frontends: ClassVar[tuple[str, ...]] = ("MPIJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Jobs whose workers' nodes are made on demand by a NodePool in sight."""
        document = subject.object
        if document is None or not subject.accelerated or document.get("spec").open:
            return
        policy = document.get("spec", "launcherCreationPolicy")
        if (policy.exists and policy.string != "AtStartup") or not project.related(document, "NodePool"):
            return
        yield self.hit(
            policy if policy.exists else document.get("spec", "mpiReplicaSpecs", "Launcher"),
            "the launcher starts at once, and mpirun fails while the workers' nodes still boot: each failure uses up "
            "one of the retries of backoffLimit, and the job can end before its nodes have come",
            "launcherCreationPolicy: WaitForWorkersReady (a field of kubeflow.org/v2beta1)",
        )
