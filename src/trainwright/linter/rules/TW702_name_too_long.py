"""TW702: operators build longer names from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_GROUPS = ("ray.io", "kubeflow.org", "trainer.kubeflow.org", "jobset.x-k8s.io")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LETTER_FIRST = ("RayJob", "RayService", "RayCluster", "PyTorchJob", "TFJob", "TrainJob")


class NameTooLong(ObjectRule):
    """Pods, services and labels are named after the object."""

    id = "TW702"
    severity = "error"
    category = "operators"
    summary = "the name is too long or not of the form that its operator needs"
    evidence = "verified"
    source = (
        "KubeRay 1.6 controllers/ray/utils/validation.go and constant.go (47, 53 characters, DNS-1035); "
        "mpi-operator 0.8 validation.go; slurm-operator 1.0 controller_webhook.go (40); JobSet 0.11 "
        "webhook; kubernetes-sigs/kueue#13413"
    )
    kinds: ClassVar[tuple[str, ...]] = (
        "RayJob",
        "RayService",
        "RayCluster",
        "MPIJob",
        "PyTorchJob",
        "TFJob",
        "TrainJob",
        "JobSet",
        "Controller",
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Names and what is built from them."""
        name = subject.metadata.get("name")
        text = name.string
        if subject.kind == "Controller":
            if subject.group != "slinky.slurm.net":
                return
            cluster = subject.get("spec", "clusterName")
            if cluster.string is not None and len(cluster.string) > 40:
                yield self.hit(
                    cluster,
                    f"the cluster's name has {len(cluster.string)} characters; the operator's webhook "
                    f"refuses more than 40",
                    "at most 40 characters",
                )
            return
        if text is None or subject.group not in _GROUPS:
            return
        limit, what = _limit(subject, text)
        if len(text) > limit:
            yield self.hit(
                name,
                f"the name has {len(text)} characters, and {what}: the operator refuses it, or the job never starts",
                f"a name of at most {limit} characters",
            )
        elif not _LABEL.fullmatch(text) and subject.kind in _LETTER_FIRST:
            yield self.hit(
                name,
                f"the name of a {subject.kind} must begin with a letter and hold only lower-case letters, digits and "
                f"hyphens",
                _cleaned(text),
            )


def _limit(subject: KubernetesObject, name: str) -> tuple[int, str]:
    """The longest legal name and the reason."""
    if subject.kind in ("RayJob", "RayService"):
        return 47, f"a {subject.kind} may have 47 (the operator adds a suffix for its cluster and service)"
    if subject.kind == "RayCluster":
        return 53, "a RayCluster may have 53 (the operator adds a suffix for its service)"
    if subject.kind == "MPIJob":
        count = subject.get("spec", "mpiReplicaSpecs", "Worker", "replicas").integer or 1
        return 63 - len(f"-worker-{count - 1}"), f"its last pod is called {name}-worker-{count - 1}, above 63"
    if subject.kind == "JobSet":
        added = 0
        for job in subject.get("spec", "replicatedJobs").elements():
            own = job.get("name").string or ""
            jobs, pods = job.get("replicas").integer or 1, job.get("template", "spec", "parallelism").integer or 1
            # The controller adds five random characters to the name of a pod.
            added = max(added, len(f"-{own}-{jobs - 1}-{max(0, pods - 1)}-abcde"))
        return 63 - added, f"with what the controller adds for pods ({added} characters) that is above 63"
    longest = 0
    for part in ("pytorchReplicaSpecs", "tfReplicaSpecs"):
        for key, value in subject.get("spec", part).pairs():
            count = value.get("replicas").integer or 1
            longest = max(longest, len(f"-{key.raw.lower()}-{count - 1}"))
    return 63 - longest, "63 are allowed for its pods and services, including what the operator adds"


def _cleaned(name: str) -> str:
    """A legal name that resembles the given one."""
    clean = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    return clean if clean[:1].isalpha() else f"job-{clean}"
