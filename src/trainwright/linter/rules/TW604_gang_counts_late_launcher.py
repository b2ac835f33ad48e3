"""TW604: the gang waits for a launcher that waits for the gang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class GangCountsLateLauncher(JobRule):
    """WaitForWorkersReady creates the launcher last."""

    id = "TW604"
    severity = "error"
    category = "scheduling"
    summary = "the gang counts the launcher, which is created only when the workers are ready"
    evidence = "reported"
    source = "kubeflow/mpi-operator#608"
    frontends: ClassVar[tuple[str, ...]] = ("MPIJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """launcherCreationPolicy against schedulingPolicy.minAvailable."""
        policy = subject.get("spec", "launcherCreationPolicy")
        if policy.string != "WaitForWorkersReady":
            return
        counts = [group.count.known for group in subject.groups if group.role == "worker"]
        workers = sum(count for count in counts if count is not None) if None not in counts else 0
        wanted = subject.get("spec", "runPolicy", "schedulingPolicy", "minAvailable")
        if wanted.integer is not None and workers and wanted.integer > workers:
            yield self.hit(
                wanted,
                f"the scheduler starts the {workers} workers only when {wanted.integer} pods can start, and "
                "the launcher, "
                "the missing one, is created only when the workers are ready: both wait for ever",
                f"minAvailable: {workers}, or launcherCreationPolicy: AtStartup",
            )
