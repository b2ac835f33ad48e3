"""TW715: the field for overrides changed its name twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_SINCE: dict[str, tuple[str, str]] = {
    "podSpecOverrides": ("2.0", "2.1"),
    "podTemplateOverrides": ("2.1", "2.2"),
    "runtimePatches": ("2.2", ""),
}


class TrainjobOverrideField(ObjectRule):
    """Each minor release of Trainer 2 renamed the overrides."""

    id = "TW715"
    severity = "warning"
    category = "operators"
    summary = "a TrainJob override field of another version of Trainer"
    evidence = "verified"
    source = (
        "CRD trainjobs.trainer.kubeflow.org in Trainer v2.0.0 (podSpecOverrides), v2.1.0 "
        "(podTemplateOverrides) and v2.2.0 (runtimePatches)"
    )
    kinds: ClassVar[tuple[str, ...]] = ("TrainJob",)
    groups: ClassVar[tuple[str, ...]] = ("trainer.kubeflow.org",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Fields and the versions that have them."""
        spec = subject.get("spec")
        used = [(name, spec.get(name)) for name in _SINCE if spec.get(name).exists]
        for name, node in used:
            since, until = _SINCE[name]
            late = project.versions.at_least("trainer", until) if until else False
            early = project.versions.at_least("trainer", since) is False
            known = project.versions.known("trainer")
            wrong = bool(late) or early or len(used) > 1
            if not wrong and (known or not until):
                continue
            right = next(
                (
                    n
                    for n, (s, u) in _SINCE.items()
                    if project.versions.at_least("trainer", s) and not (u and project.versions.at_least("trainer", u))
                ),
                "runtimePatches",
            )
            yield self.hit(
                node.key if node.key is not None else node,
                f"{name} is a field of Trainer {since}"
                + (f" only (until {until})" if until else " and later")
                + ": other versions prune it, and what it sets does not apply",
                f"{right} with Trainer {_SINCE[right][0]}{'' if known else ' and later'}",
                severity="error" if wrong else None,
            )
