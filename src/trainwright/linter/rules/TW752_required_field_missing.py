"""TW752: the API server refuses objects without it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import departures, is_fragment

# Operators without webhooks that fill in required fields, and whose API no longer changes with each release.
_SURE = ("kubernetes", "kuberay", "karpenter", "mpi-operator")


class RequiredFieldMissing(ObjectRule):
    """Required fields without a default must be written."""

    id = "TW752"
    severity = "error"
    category = "operators"
    summary = "a required field is missing"
    evidence = "verified"
    source = "required fields of the operators' CRDs and of the Kubernetes OpenAPI (facts/fields.json)"

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Required fields of objects that are whole."""
        missing = [departure for departure in departures(subject) if departure.kind == "missing"]
        if not missing or subject.holder is not None or is_fragment(subject, project):
            return
        for departure in missing:
            if departure.name in ("metadata", "kind", "apiVersion"):
                continue
            if departure.name == "selector" and subject.group == "apps":
                continue
            if subject.kind == "EC2NodeClass" or (departure.name == "name" and not departure.path):
                continue
            if departure.name == "name" and departure.path[-2:] == ("failurePolicy", "rules"):
                continue  # JobSet's webhook names the rules of a failure policy itself.
            place = ".".join(departure.path) or subject.kind
            yield self.hit(
                departure.node,
                f"{place} of a {subject.kind} needs {departure.name}: the API server refuses the object without it",
                f"{departure.name}: …",
                severity=None if departure.tree.component in _SURE else "warning",
            )
