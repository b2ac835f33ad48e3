"""TW524: a container that trains, in a workload without an end."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_NAMES = ("trainer", "train", "training", "finetune", "fine-tune", "pytorch-trainer", "trainer-node")


class TrainerBesideSidecarInADeployment(PodRule):
    """A Deployment has no end, and a helper container keeps a Job from having one."""

    id = "TW524"
    severity = "note"
    category = "lifecycle"
    summary = "a trainer and a helper share the pod of a Deployment"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/apis/apps/validation: restartPolicy Always; native sidecars: Kubernetes 1.29, "
        "KEP-753"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers named as trainers beside others, in Deployments."""
        if subject.job.frontend not in ("Deployment", "ReplicaSet"):
            return
        containers = subject.group.main_containers
        trainer = next((container for container in containers if container.name in _NAMES), None)
        if trainer is None or len(containers) < 2:
            return
        helpers = ", ".join(repr(container.name) for container in containers if container is not trainer)
        yield self.hit(
            trainer,
            f"a {subject.job.frontend} starts {trainer.name!r} again whenever it has finished; and as a Job it would "
            f"not complete either, because {helpers} goes on running beside it",
            "a Job, with the helper as a native sidecar: in initContainers with restartPolicy: Always (Kubernetes "
            "1.29)",
        )
