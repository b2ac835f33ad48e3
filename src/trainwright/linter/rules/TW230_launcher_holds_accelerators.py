"""TW230: a launcher pod holds accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.cost import DEVICES, an_hour_of


class LauncherHoldsAccelerators(PodRule):
    """The launcher starts processes elsewhere."""

    id = "TW230"
    severity = "warning"
    category = "accelerators"
    summary = "a launcher pod holds accelerators"
    evidence = "reported"
    source = "kubeflow/mpi-operator#476 and #31: the launcher only runs mpirun"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerators of pods that start others."""
        group, job = subject.group, subject.job
        idle_head = (
            group.role == "head"
            and group.entry.get("spec", "headGroupSpec", "rayStartParams", "num-cpus").string == "0"
        )
        if group.role not in ("launcher", "submitter") and not idle_head:
            return
        if job.get("spec", "runLauncherAsWorker").boolean or job.get("spec", "runLauncherAsWorker").unknown:
            return
        for container in group.accelerated:
            count = container.accelerators
            held = (count.known or 0) * (group.count.known or 1)
            cost = an_hour_of(held if container.accelerator in DEVICES else None, job, group, project)
            yield self.hit(
                count,
                f"the {group.role} only starts processes on the workers, and holds "
                f"{count.known or 'its'} {container.accelerator} for the whole run{cost}",
                "no accelerator, about 1 CPU and 2Gi",
            )
