"""TW738: a TrainJob of a runtime that is called otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_SHIPPED = ("torch-distributed", "deepspeed-distributed", "mlx-distributed", "jax-distributed", "xgboost-distributed")
_KINDS = ("ClusterTrainingRuntime", "TrainingRuntime")


class RuntimeNotThere(ObjectRule):
    """A reference names a runtime; one beside it has nearly that name."""

    id = "TW738"
    severity = "error"
    category = "operators"
    summary = "a TrainJob refers to a runtime that is not there"
    evidence = "verified"
    source = (
        "kubeflow/trainer v2.2 pkg/runtime/core: the runtime must be created before the TrainJob is created, or the "
        "TrainJob is refused; runtimeRef.kind defaults to ClusterTrainingRuntime"
    )
    kinds: ClassVar[tuple[str, ...]] = ("TrainJob",)
    groups: ClassVar[tuple[str, ...]] = ("trainer.kubeflow.org",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The reference against the runtimes of the same file."""
        reference = subject.get("spec", "runtimeRef")
        name, kind = reference.get("name"), reference.get("kind")
        if name.string is None or reference.open or kind.unknown:
            return
        wanted = kind.string or "ClusterTrainingRuntime"
        if wanted not in _KINDS:
            group = reference.get("apiGroup").string or "trainer.kubeflow.org"
            if group == "trainer.kubeflow.org":
                yield self.hit(
                    kind,
                    f"Trainer has no kind of runtime {wanted}, and refuses the TrainJob",
                    did_you_mean(wanted, _KINDS),
                )
            return
        if name.string in _SHIPPED:
            return
        runtimes = project.related(subject, "ClusterTrainingRuntime", "TrainingRuntime")
        if any(r.object_name is None for r in runtimes):
            return
        own = [r for r in runtimes if r.text.root() is subject.text.root()]
        if any(r.object_name == name.string and r.kind == wanted for r in runtimes):
            return
        other = next((r for r in own if r.object_name == name.string), None)
        if other is not None:
            yield self.hit(
                kind if kind.exists else name,
                f"{name.string} is a {other.kind}, and the reference is to a {wanted}"
                + ("" if kind.exists else " (the default)")
                + ": Trainer finds no such runtime and refuses the TrainJob",
                f"kind: {other.kind} in runtimeRef",
            )
            return
        near = did_you_mean(name.string, [r.object_name or "" for r in own if r.kind == wanted])
        if near.startswith("did"):
            yield self.hit(
                name,
                f"there is no {wanted} {name.string} beside the TrainJob: Trainer refuses it",
                near,
            )
