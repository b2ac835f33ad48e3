"""TW720: selector and pod labels belong together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.fields import is_fragment


class SelectorAndLabels(ObjectRule):
    """``spec.selector.matchLabels`` must be labels of the template."""

    id = "TW720"
    severity = "error"
    category = "operators"
    summary = "a workload whose selector does not match its pods"
    evidence = "reproduced"
    source = (
        "Kubernetes 1.36 apps/v1 validation: spec.selector is required and must match template labels; "
        "reproduced against the schema"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
    groups: ClassVar[tuple[str, ...]] = ("apps",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Selector and labels."""
        spec = subject.get("spec")
        if spec.open or not spec.exists or is_fragment(subject, project):
            return
        selector, labels = spec.get("selector"), spec.get("template", "metadata", "labels")
        if selector.absent:
            containers = spec.get("template", "spec", "containers").elements()
            if any(container.get("image").exists for container in containers):
                yield self.hit(
                    spec,
                    f"a {subject.kind} needs spec.selector: the API server refuses it without",
                    "selector: {matchLabels: {app: …}}, and the same labels in template.metadata.labels",
                    severity=None if labels.absent else "warning",
                )
            return
        for key, value in selector.get("matchLabels").pairs():
            own = labels.get(key.raw)
            if value.string is None or own.unknown or labels.unknown:
                continue
            if own.string != value.string:
                yield self.hit(
                    value,
                    f"the selector wants {key.raw}: {value.raw}, but the pod template has "
                    f"{own.raw or 'no such label'}: the API server refuses the {subject.kind}",
                    f"{key.raw}: {value.raw} in template.metadata.labels",
                )
