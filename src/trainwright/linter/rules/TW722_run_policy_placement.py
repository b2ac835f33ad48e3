"""TW722: policies live in spec.runPolicy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_RUN_POLICY = ("backoffLimit", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "schedulingPolicy",
               "cleanPodPolicy", "suspend")  # fmt: skip
_OLD = {
    "gpus": "limits of the Worker's container, and slotsPerWorker",
    "processingUnits": "limits of the Worker's container, and slotsPerWorker",
    "processingResourceType": "limits of the Worker's container",
    "mainContainer": "nothing: the launcher's first container is used",
}


class RunPolicyPlacement(ObjectRule):
    """``runPolicy`` holds what older versions had in ``spec``."""

    id = "TW722"
    severity = "error"
    category = "operators"
    summary = "a job policy in the wrong place"
    evidence = "verified"
    source = (
        "CRDs of mpi-operator 0.8 (v2beta1) and training-operator 1.9.3 (v1): runPolicy holds "
        "cleanPodPolicy, backoffLimit, ttlSecondsAfterFinished, activeDeadlineSeconds, schedulingPolicy"
    )
    kinds: ClassVar[tuple[str, ...]] = ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob")
    groups: ClassVar[tuple[str, ...]] = ("kubeflow.org",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Fields of the wrong level."""
        if subject.kind == "MPIJob" and subject.version not in ("v1", "v2beta1"):
            return
        spec = subject.get("spec")
        for name in _RUN_POLICY:
            node = spec.get(name)
            if (
                node.exists
                and node.key is not None
                and not (subject.kind == "MPIJob" and subject.version == "v1" and name == "cleanPodPolicy")
            ):
                yield self.hit(
                    node.key,
                    f"{name} belongs into spec.runPolicy; in spec it is refused or dropped, and does not apply",
                    f"runPolicy: {{{name}: {node.raw or '…'}}}",
                    severity=None if subject.version == "v2beta1" else "warning",
                )
        if subject.kind != "MPIJob":
            return
        for name, instead in _OLD.items():
            if spec.get(name).exists:
                yield self.hit(
                    spec.get(name).key or spec,
                    f"{name} is a field of MPIJob v1alpha1; {subject.version} refuses or drops it",
                    instead,
                )
        places = [spec.get("runPolicy"), *(value for _, value in spec.get("mpiReplicaSpecs").pairs())]
        for name in ("slotsPerWorker", "launcherCreationPolicy", "sshAuthMountPath", "mpiImplementation"):
            for place in places:
                node = place.get(name)
                if node.exists and node.key is not None:
                    yield self.hit(
                        node.key,
                        f"{name} belongs into spec; here it is refused or dropped, and the default holds",
                        f"spec.{name}: {node.raw}",
                    )
