"""TW125: the master's DNS name is not one that the pods get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class AddressDoesNotResolve(LaunchRule):
    """A pod's name resolves only below its subdomain."""

    id = "TW125"
    severity = "error"
    category = "launch"
    summary = "the master's DNS name is not one that the pods get"
    evidence = "verified"
    source = (
        "jobset 0.12: <jobset>-<replicatedJob>-<jobIndex>-<podIndex>.<subdomain>, subdomain defaults to "
        "the JobSet's name; kubernetes-sigs/jobset#603; Kubernetes DNS for pods: hostname and subdomain of "
        "an Indexed Job"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Literal addresses that begin with the job's own name."""
        meeting = rendezvous.host(subject)
        host, name = meeting.host if meeting is not None else None, subject.job.get("metadata", "name").string
        if (
            meeting is None
            or host is None
            or name is None
            or subject.group is None
            or rendezvous.nodes_at_least_two(subject) is None
        ):
            return
        label, _, rest = host.partition(".")
        below = rest.split(".", 1)[0]
        if not label.startswith(f"{name}-"):
            return
        if subject.job.frontend == "JobSet":
            domain = subject.job.get("spec", "network", "subdomain")
            wanted = name if domain.absent else domain.string
            jobs = [entry.get("name").string for entry in subject.job.get("spec", "replicatedJobs").elements()]
            fits = any(
                part is None or re.fullmatch(re.escape(f"{name}-{part}-") + r"\d+-\d+", label) for part in jobs
            )
            if wanted is not None and (below != wanted or not fits):
                yield self.hit(
                    meeting.word,
                    f"{host} does not resolve: pods of this JobSet are called "
                    f"{name}-<replicatedJob>-<job>-<pod>.{wanted}; the ranks look for the master until "
                    "they time out",
                    f"{name}-{jobs[0] if jobs and jobs[0] else '<replicatedJob>'}-0-0.{wanted}",
                )
        elif subject.job.frontend == "Job" and re.fullmatch(re.escape(name) + r"-\d+", label):
            domain = subject.group.spec.get("subdomain")
            service = project.find(
                subject.job.document, "Service", below, subject.job.get("metadata", "namespace").string
            )
            if domain.absent or (domain.string is not None and domain.string != below):
                written = "has no subdomain" if domain.absent else f"has the subdomain {domain.string}"
                yield self.hit(
                    meeting.word,
                    f"{host} does not resolve: the pod template {written}, and a pod's host name "
                    "exists in DNS only below its subdomain",
                    f"spec.template.spec.subdomain: {below or name}, a headless Service of that name, "
                    f"and {label}.{below or name}",
                )
            elif (
                service is not None
                and service.get("spec", "clusterIP").string != "None"
                and not service.get("spec", "clusterIP").unknown
            ):
                yield self.hit(
                    service.get("spec", "clusterIP"),
                    f"Service {below} is not headless, so it publishes no name for single pods and "
                    f"{host} does not resolve",
                    "clusterIP: None",
                )
