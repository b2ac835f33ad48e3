"""TW717: policies refer to replicated jobs by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class JobsetNamesUnknown(ObjectRule):
    """Success, failure, coordinator and dependencies name replicated jobs."""

    id = "TW717"
    severity = "error"
    category = "operators"
    summary = "a JobSet policy that names a job which is not there, or rules another out"
    evidence = "verified"
    source = "JobSet 0.11 pkg/webhooks/jobset_webhook.go"
    kinds: ClassVar[tuple[str, ...]] = ("JobSet",)
    groups: ClassVar[tuple[str, ...]] = ("jobset.x-k8s.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Every name that refers to a replicated job."""
        spec = subject.get("spec")
        jobs = spec.get("replicatedJobs")
        names = [job.get("name").string for job in jobs.elements()]
        if not names or None in names or jobs.open:
            return
        known = [name for name in names if name is not None]
        for number, job in enumerate(jobs.elements()):
            if known[number] in known[:number]:
                yield self.hit(
                    job.get("name"),
                    f"two replicated jobs are named {known[number]}: the API server refuses the JobSet",
                    "a name of its own for each",
                )
            for depends in job.get("dependsOn").elements():
                wanted = depends.get("name")
                if wanted.string is not None and wanted.string not in known[:number]:
                    yield self.hit(
                        wanted,
                        f"{known[number]} depends on {wanted.string}, which is no replicated job before it: "
                        f"the webhook refuses the JobSet",
                        "the name of an earlier replicated job",
                    )
                if spec.get("startupPolicy", "startupPolicyOrder").string == "InOrder":
                    yield self.hit(
                        job.get("dependsOn"),
                        "dependsOn and startupPolicy InOrder exclude each other: the API server refuses the JobSet",
                        "one of them",
                    )
                    break
        targets = [
            *spec.get("successPolicy", "targetReplicatedJobs").elements(),
            spec.get("coordinator", "replicatedJob"),
        ]
        for rule in spec.get("failurePolicy", "rules").elements():
            targets += rule.get("targetReplicatedJobs").elements()
        for target in targets:
            if target.string is not None and target.string not in known:
                yield self.hit(
                    target,
                    f"there is no replicated job {target.string}: the webhook refuses the JobSet",
                    did_you_mean(target.string, known),
                )
