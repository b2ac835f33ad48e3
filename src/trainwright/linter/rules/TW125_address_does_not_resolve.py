"""TW125: the master's DNS name is not one that the pods get."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.shell.words import Word
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
        "an Indexed Job; volcano 1.15 svc plugin: <job>-<task>-<index>.<job>; training-operator 1.9.4: a Service "
        "<job>-<type>-<index> for each replica"
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
        if subject.job.frontend == "JobSet" and rest.count(".") == 0:
            stranger = self._of_another_job_set(subject, meeting.word, label, name, project)
            if stranger is not None:
                yield stranger
                return
        if not label.startswith(f"{name}-"):
            return
        if subject.job.frontend in ("VolcanoJob", "TrainJob", "PyTorchJob"):
            yield from self._by_operator(subject, meeting.word, label, below)
        elif subject.job.frontend == "JobSet":
            published = subject.job.get("spec", "network", "enableDNSHostnames")
            if published.boolean is False:
                yield self.hit(
                    published,
                    f"enableDNSHostnames is false, so the pods of this JobSet get no names, and the ranks look for "
                    f"{host} until they time out",
                    "enableDNSHostnames: true (the default)",
                )
                return
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

    def _of_another_job_set(
        self, subject: JobLaunch, where: Word, label: str, name: str, project: Project
    ) -> Hit | None:
        """The address of rank 0 in a JobSet of another name: what is left when a JobSet is copied and renamed."""
        if label.startswith(f"{name}-"):
            return None
        for entry in subject.job.get("spec", "replicatedJobs").elements():
            part = entry.get("name").string
            found = re.fullmatch(rf"(.+)-{re.escape(part)}-\d+-\d+", label) if part else None
            if found is None or any(o.object_name == found[1] for o in project.objects("JobSet")):
                continue
            return self.hit(
                where,
                f"{label} would be a pod of a JobSet called {found[1]}, and this one is called {name}: the ranks "
                "look for the master until they time out, or join another job",
                f"{name}-{part}-0-0.{name}",
            )
        return None

    def _by_operator(self, subject: JobLaunch, where: Word, label: str, below: str) -> Iterator[Hit]:
        """Names that operators give to pods and services, against what is written."""
        name = subject.job.get("metadata", "name").string or ""
        groups = [re.escape(g.name.lower()) for g in subject.job.groups if g.name]
        if subject.job.frontend == "VolcanoJob":
            if subject.job.get("spec", "plugins", "svc").absent:
                return
            pattern, domain = rf"{re.escape(name)}-(?:{'|'.join(groups)})-\d+", name
        elif subject.job.frontend == "TrainJob":
            pattern, domain = rf"{re.escape(name)}-[a-z0-9-]+-\d+-\d+", name
        else:
            pattern, domain = rf"{re.escape(name)}-(?:{'|'.join(groups)})-\d+", below
        if not groups or (re.fullmatch(pattern, label) and below == domain):
            return
        first = subject.job.groups[0].name.lower()
        right = {"VolcanoJob": f"{name}-{first}-0.{name}", "TrainJob": f"{name}-node-0-0.{name}"}.get(
            subject.job.frontend, f"{name}-{first}-0 (which the operator sets as MASTER_ADDR by itself)"
        )
        yield self.hit(
            where,
            f"{label}{'.' + below if below else ''} does not resolve: a {subject.job.frontend} of this name has no "
            "such pod or service in DNS, and the ranks look for the master until they time out",
            right,
        )
