"""TW724: v1beta2 renamed fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_MOVED = {
    "v1beta2": {"cohort": "cohortName", "admissionChecks": "admissionChecksStrategy: {admissionChecks: [{name: …}]}"},
    "v1beta1": {"cohortName": "cohort, or apiVersion: kueue.x-k8s.io/v1beta2"},
}


class KueueFieldsOfOlderVersion(ObjectRule):
    """``cohort`` became ``cohortName``."""

    id = "TW724"
    severity = "error"
    category = "operators"
    summary = "Kueue v1beta2 objects with fields of v1beta1"
    evidence = "verified"
    source = "Kueue 0.17 CRD clusterqueues.kueue.x-k8s.io, v1beta1 and v1beta2"
    kinds: ClassVar[tuple[str, ...]] = ("ClusterQueue",)
    groups: ClassVar[tuple[str, ...]] = ("kueue.x-k8s.io",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Fields of the other version."""
        spec = subject.get("spec")
        moved = _MOVED.get(subject.version, {})
        for name, instead in moved.items():
            node = spec.get(name)
            if node.exists and node.key is not None:
                yield self.hit(
                    node.key, f"{subject.version} has no {name}: the API server refuses or drops it", instead
                )
