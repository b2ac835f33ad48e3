"""TW721: replica groups have fixed names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.errors import did_you_mean
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_TYPES: dict[str, tuple[str, tuple[str, ...]]] = {
    "PyTorchJob": ("pytorchReplicaSpecs", ("Master", "Worker")),
    "TFJob": ("tfReplicaSpecs", ("Chief", "Master", "PS", "Evaluator", "Worker")),
    "XGBoostJob": ("xgbReplicaSpecs", ("Master", "Worker")),
    "PaddleJob": ("paddleReplicaSpecs", ("Master", "Worker")),
    "JAXJob": ("jaxReplicaSpecs", ("Worker",)),
    "MPIJob": ("mpiReplicaSpecs", ("Launcher", "Worker")),
}


class ReplicaTypes(ObjectRule):
    """Each kind knows certain replica types."""

    id = "TW721"
    severity = "error"
    category = "operators"
    summary = "replica types that the operator does not know, or too many masters"
    evidence = "verified"
    source = (
        "kubeflow training-operator v1.9.3 pkg/webhooks (unknown replica type; only one master) and "
        "mpi-operator 0.8 validation.go (Launcher must be 1)"
    )
    kinds: ClassVar[tuple[str, ...]] = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    groups: ClassVar[tuple[str, ...]] = ("kubeflow.org",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Names and counts of the groups."""
        field, types = _TYPES[subject.kind]
        replicas = subject.get("spec", field)
        if not replicas.exists or replicas.open:
            return
        for key, value in replicas.pairs():
            if key.unknown:
                continue
            if key.raw not in types:
                right = next((name for name in types if name.lower() == key.raw.lower()), None)
                if right is not None and subject.version == "v1":
                    continue  # The training operator writes the names in camel case itself.
                yield self.hit(
                    key,
                    f"a {subject.kind} has no replica type {key.raw}: the operator refuses it",
                    right or did_you_mean(key.raw, types),
                )
            count = value.get("replicas")
            if key.raw in ("Master", "Launcher") and (count.integer or 1) > 1 and subject.kind != "TFJob":
                yield self.hit(
                    count,
                    f"there can be one {key.raw} only, and {count.integer} are asked for: the operator "
                    f"refuses the job",
                    f"replicas: 1, and the others as {types[-1]}",
                )
        if subject.kind == "MPIJob" and replicas.pairs() and replicas.get("Launcher").absent:
            yield self.hit(
                replicas,
                "an MPIJob needs a Launcher, which runs mpirun: the operator refuses it",
                "mpiReplicaSpecs.Launcher with replicas: 1",
            )
