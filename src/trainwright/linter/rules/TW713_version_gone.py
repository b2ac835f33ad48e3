"""TW713: the version was removed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.values import version_tuple

_OPERATOR = re.compile(r"mpi-?operator(?:/mpi-operator)?:v?(\d+\.\d+)")


class VersionGone(ObjectRule):
    """Releases drop old versions of an API."""

    id = "TW713"
    severity = "warning"
    category = "operators"
    summary = "an API version that is served no more"
    evidence = "verified"
    source = "Kubernetes deprecated API migration guide; CRDs of each operator's releases (facts/api_versions.json)"

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Versions with a release that dropped them."""
        row = read_rows("api_versions").get(subject.group)
        if row is None or subject.kind not in row["kinds"]:
            return
        gone = row["gone"].get(subject.version, {})
        fact = gone.get(subject.kind) or gone.get("*")
        if fact is None:
            return
        component, until = fact["component"], fact["until"]
        reached = project.versions.at_least(component, until) if until else None
        if reached is False:
            return
        shared = subject.kind == "MPIJob" and subject.version == "v1" and not reached
        if shared and project.versions.known("training-operator"):
            return
        # A chart chooses the version by what the cluster has; its branches are not told apart here.
        certain = (bool(reached) or bool(fact.get("hard"))) and not subject.templated
        yield self.hit(
            subject.get("apiVersion"),
            f"{component} serves {subject.api_version} {subject.kind} no more since {until}: the API server answers "
            f'"no '
            f'matches for kind"',
            fact["instead"],
            severity="error"
            if certain
            else "note"
            if subject.templated or (shared and not _operator_here(project))
            else None,
        )


def _operator_here(project: Project) -> bool:
    """Whether the files install an mpi-operator that is new enough."""
    images = (c.image.string or "" for job in project.jobs for g in job.groups for c in g.main_containers)
    found = (_OPERATOR.search(image) for image in images)
    return any(match is not None and version_tuple(match[1]) >= (0, 4) for match in found)
