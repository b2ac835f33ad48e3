"""TW752: the API server refuses objects without it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import departures

_YOUNG = ("slurm-operator", "trainer")  # What they require still changes with every release.


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
        if subject.templated or _is_fragment(subject, project):
            return
        for departure in departures(subject):
            if departure.kind != "missing" or departure.name in ("metadata", "kind", "apiVersion"):
                continue
            if departure.name == "selector" and subject.group == "apps":
                continue
            if subject.kind == "EC2NodeClass" or (departure.name == "name" and not departure.path):
                continue
            place = ".".join(departure.path) or subject.kind
            yield self.hit(
                departure.node,
                f"{place} of a {subject.kind} needs {departure.name}: the API server refuses the object without it",
                f"{departure.name}: …",
                severity="warning" if departure.tree.component in _YOUNG else None,
            )


def _is_fragment(subject: KubernetesObject, project: Project) -> bool:
    """Whether the document is a patch for another object rather than an object of its own."""
    if "patch" in subject.path.lower() or subject.holder is not None:
        return True
    folder = subject.path.rpartition("/")[0]
    kustomized = any(
        file.path.rpartition("/")[2].lower().startswith("kustomization.")
        and (folder + "/").startswith(file.path.rpartition("/")[0] + "/")
        for file in project.files
    )
    return kustomized or any(key.raw == "$patch" for node in subject.node.walk() for key, _ in node.pairs())
