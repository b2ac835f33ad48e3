"""TW620: requirement values that no node has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_VALUES = {
    "karpenter.sh/capacity-type": ("on-demand", "spot", "reserved"),
    "kubernetes.io/arch": ("amd64", "arm64"),
    "kubernetes.io/os": ("linux", "windows"),
}


class CapacityTypeValue(ObjectRule):
    """A requirement with a value that does not exist selects nothing."""

    id = "TW620"
    severity = "error"
    category = "scheduling"
    summary = "a NodePool requires a capacity type, architecture or system that does not exist"
    evidence = "verified"
    source = (
        "sigs.k8s.io/karpenter@v1.14.3 pkg/apis/v1/labels.go, WellKnownValuesForRequirements, and "
        "nodeclaim_validation.go, validateWellKnownValues (capacity types); values of GOARCH and GOOS (the others)"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Values of requirements with ``In``."""
        for requirement in subject.get("spec", "template", "spec", "requirements").elements():
            right = _VALUES.get(requirement.get("key").string or "")
            if right is None or requirement.get("operator").string != "In":
                continue
            values = [value for value in requirement.get("values").elements() if value.string is not None]
            wrong = [value for value in values if value.string not in right]
            if not wrong or len(values) != len(requirement.get("values").elements()):
                continue
            none = len(wrong) == len(values)
            yield self.hit(
                wrong[0],
                f"{requirement.get('key').raw} is never {wrong[0].raw}: "
                + ("the pool can start no node" if none else "this value selects nothing"),
                " or ".join(right),
                "error" if none and requirement.get("key").string == "karpenter.sh/capacity-type" else "warning",
            )
