"""TW712: the API server has no such kind."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.errors import did_you_mean
from trainwright.facts.data import read_rows
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_NOT_CORE = ("Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "StorageClass",
             "PriorityClass", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding",
             "PodDisruptionBudget")  # fmt: skip


class KindNotInGroup(ObjectRule):
    """Group, version and kind must exist together."""

    id = "TW712"
    severity = "error"
    category = "operators"
    summary = "a kind or version that this API group does not have"
    evidence = "verified"
    source = "CRDs of each operator and the Kubernetes 1.36 OpenAPI (facts/api_versions.json)"

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Kinds and versions against the table."""
        kind, version = subject.get("kind"), subject.get("apiVersion")
        row = read_rows("api_versions").get(subject.group)
        if kind.unknown or version.unknown or kind.string is None:
            return
        if row is None:
            yield from self._elsewhere(subject)
            return
        known = row["kinds"]
        if subject.kind in known:
            versions = known[subject.kind]
            if subject.version not in versions:
                yield self.hit(
                    version,
                    f'{subject.group} has no version {subject.version} of {subject.kind}: the API server answers "no '
                    f"matches "
                    f'for kind"',
                    f"apiVersion: {subject.group}/{versions[0]}",
                )
            return
        fictional = row.get("fictional", {})
        if subject.kind in fictional:
            yield self.hit(
                kind,
                f'no release of this operator has a kind {subject.kind}: the API server answers "no matches '
                f'for kind"',
                fictional[subject.kind],
            )
            return
        base = subject.kind.removesuffix("List")
        if base in known:
            return
        homes = _homes(subject.kind)
        near = did_you_mean(subject.kind, known)
        if homes:
            yield self.hit(
                version,
                f'{subject.kind} is no kind of {subject.group}: the API server answers "no matches for kind"',
                f"apiVersion: {homes[0]}",
                severity="warning" if row.get("open") else None,
            )
        elif not row.get("open") or near.startswith("did"):
            yield self.hit(
                kind,
                f'{subject.group} has no kind {subject.kind}: the API server answers "no matches for kind"',
                near,
                severity=None if near.startswith("did") and not row.get("open") else "warning",
            )

    def _elsewhere(self, subject: KubernetesObject) -> Iterator[Hit]:
        """A well-known kind written with the core group (``v1``)."""
        if subject.group or subject.version != "v1" or subject.kind not in _NOT_CORE:
            return
        home = _homes(subject.kind)[0]
        yield self.hit(
            subject.get("apiVersion"),
            f'{subject.kind} is no kind of the core group v1: the API server answers "no matches for kind"',
            f"apiVersion: {home}",
        )


def _homes(kind: str) -> list[str]:
    """Groups with the newest version that have a kind of this name."""
    return [
        f"{group}/{row['kinds'][kind][0]}"
        for group, row in read_rows("api_versions").items()
        if kind in row["kinds"] and group != "extensions"
    ]
