"""TW710: pods have DNS names only through the svc plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_PUBLISH = ("svc", "pytorch", "tensorflow", "mpi", "ray", "hcclrank")


class VolcanoWithoutNames(JobRule):
    """``<job>-<task>-0`` resolves through the svc plugin only."""

    id = "TW710"
    severity = "error"
    category = "operators"
    summary = "a Volcano job meets at a pod name that does not resolve"
    evidence = "verified"
    source = (
        "volcano-sh/volcano 1.15 pkg/controllers/job/plugins/svc: the plugin creates the headless "
        "service and the subdomain; pod names are <job>-<task>-<index>"
    )
    frontends: ClassVar[tuple[str, ...]] = ("VolcanoJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Addresses that name a pod of the job, without a plugin that publishes it."""
        plugins = subject.get("spec", "plugins")
        name = subject.object.object_name if subject.object is not None else None
        if name is None or plugins.open or plugins.unknown:
            return
        if any(plugins.get(plugin).type != "absent" for plugin in _PUBLISH):
            return
        if any(group.spec.get("subdomain").exists for group in subject.groups):
            return
        pods = [f"{name}-{group.name}-0" for group in subject.groups if group.name]
        seen: set[int] = set()
        for launch in subject.training_launches:
            word = launch.rendezvous("rdzv_endpoint", "master_addr")
            host = (word.known or "").partition(":")[0] if word is not None else ""
            if (
                word is None
                or not any(host == pod or host.startswith(f"{pod}.") for pod in pods)
                or word.span.start in seen
            ):
                continue
            seen.add(word.span.start)
            yield self.hit(
                word,
                f"{host} is a pod of this job, but without the svc plugin nothing publishes its name: the other "
                f"ranks cannot "
                f"resolve it and wait until their timeout",
                f"plugins: {{svc: []}}, and {host.partition('.')[0]}.{name} as the address",
            )
