"""TW602: a gang waits for more pods than the job has."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class GangAboveItsPods(JobRule):
    """minAvailable can never be reached."""

    id = "TW602"
    severity = "error"
    category = "scheduling"
    summary = "minAvailable is larger than the number of pods"
    evidence = "verified"
    source = "volcano-sh/volcano admit_job.go (job minAvailable should not be greater than total replicas in tasks)"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Volcano jobs and tasks, and gangs of training operators."""
        counts = [group.count.known for group in subject.groups]
        total = sum(count for count in counts if count is not None) if None not in counts and counts else None
        paths = (("spec", "minAvailable"), ("spec", "runPolicy", "schedulingPolicy", "minAvailable"))
        for path in paths:
            wanted = subject.get(*path)
            if wanted.integer is not None and total is not None and wanted.integer > total:
                yield self.hit(
                    wanted,
                    f"the gang waits for {wanted.integer} pods and the job has {total}: "
                    + ("Volcano refuses the job" if path[1] == "minAvailable" else "no pod is ever started"),
                    f"minAvailable: {total}",
                )
        for group in subject.groups if subject.frontend == "VolcanoJob" else ():
            wanted = group.entry.get("minAvailable")
            count = group.count.known
            if wanted.integer is not None and count is not None and wanted.integer > count:
                yield self.hit(
                    wanted,
                    f"task {group.name!r} waits for {wanted.integer} pods and has {count} replicas: Volcano refuses "
                    "the job",
                    f"minAvailable: {count}",
                )
