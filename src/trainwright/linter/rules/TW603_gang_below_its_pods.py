"""TW603: a gang starts before all of its ranks can."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.values import Absent
from trainwright.linter.view.job import TrainingJob


class GangBelowItsPods(JobRule):
    """A collective needs every rank."""

    id = "TW603"
    severity = "warning"
    category = "scheduling"
    summary = "minAvailable is smaller than the number of workers, so a part of the gang may start alone"
    evidence = "verified"
    source = "Volcano v1.15: pods beyond minAvailable are scheduled whenever there is room"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Jobs whose workers all take part in one process group."""
        workers = [group for group in subject.groups if group.accelerated]
        counts = [group.count.known for group in workers]
        if not workers or None in counts:
            return
        needed = sum(count for count in counts if count is not None)
        if any(
            launch.nnodes.known is None and not isinstance(launch.nnodes, Absent)
            for launch in subject.training_launches
            if ":" in (launch.setting("nnodes").known or "")
        ):
            return
        for path in (("spec", "minAvailable"), ("spec", "runPolicy", "schedulingPolicy", "minAvailable")):
            wanted = subject.get(*path)
            if wanted.integer is not None and 0 < wanted.integer < needed and subject.ends:
                yield self.hit(
                    wanted,
                    f"the gang may start with {wanted.integer} of its {needed} workers: these hold their "
                    "accelerators and "
                    "wait in the rendezvous for ranks that may not fit for hours",
                    f"minAvailable: {needed} (and the launcher, if it has a pod of its own)",
                )
