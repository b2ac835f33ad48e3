"""TW515: one pod of a gang is restarted alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class GangRestartsOnePod(PodRule):
    """The other ranks are still in the old collective."""

    id = "TW515"
    severity = "warning"
    category = "lifecycle"
    summary = "a pod of a gang restarts in place while the other ranks wait"
    evidence = "verified"
    source = (
        "Kubernetes: OnFailure restarts the container in its pod; torch.distributed static rendezvous admits "
        "each rank once"
    )
    _frontends: ClassVar[tuple[str, ...]] = ("Job", "JobSet", "VolcanoJob")

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Groups of several pods that meet in a fixed process group."""
        job, group = subject.job, subject.group
        policy = group.spec.get("restartPolicy")
        if job.frontend not in self._frontends or policy.string != "OnFailure" or not group.accelerated:
            return
        launches = [launch for launch in job.training_launches if launch.group is group and launch.tool == "torchrun"]
        if not launches or (job.nodes.known or 0) < 2:
            return
        if any(launch.rendezvous_backend != "static" or launch.flags.has("max_restarts") for launch in launches):
            return
        if job.frontend == "VolcanoJob" and any(
            "Restart" in (policy.get("action").string or "") for policy in job.get("spec", "policies").elements()
        ):
            return
        yield self.hit(
            policy,
            f"when one of {job.nodes.known} pods fails, its container starts again alone, while the other "
            "ranks sit in a "
            "collective of the old process group until it times out: their accelerators idle for up to half an hour",
            "restartPolicy: Never, and a restart of the whole gang (JobSet failurePolicy.maxRestarts, Volcano "
            "PodFailed: RestartJob), or --rdzv_backend=c10d with --max_restarts",
        )
