"""TW501: a Job that never completes because a second container never ends."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.saving import never_ends


class SidecarBlocksCompletion(PodRule):
    """A pod is done when all its ordinary containers are."""

    id = "TW501"
    severity = "error"
    category = "lifecycle"
    summary = "an endless second container keeps the job from completing"
    evidence = "verified"
    source = "kubernetes/kubernetes#25908; native sidecars: Kubernetes 1.29, KEP-753"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers beside the training one that never end."""
        group, frontend = subject.group, subject.job.frontend
        # Ray pods and MPI workers are taken down by their operator when the job is over.
        if frontend.startswith("Ray") or (frontend == "MPIJob" and group.role != "launcher"):
            return
        if not subject.job.ends or not group.accelerated or len(group.main_containers) < 2:
            return
        for container in group.main_containers:
            reason = never_ends(container) if container.accelerator is None else None
            if reason is not None:
                yield self.hit(
                    container,
                    f"{container.name!r} {reason}, so the pod never completes after training ends: the job stays "
                    "active and the node's accelerators stay held",
                    "make it a native sidecar: move it to initContainers with restartPolicy: Always "
                    "(Kubernetes 1.29)",
                )
