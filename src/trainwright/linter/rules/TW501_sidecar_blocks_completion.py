"""TW501: a Job that never completes because a second container never ends."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods


class SidecarBlocksCompletion(PodRule):
    """A pod is done when all its ordinary containers are."""

    id = "TW501"
    severity = "error"
    category = "lifecycle"
    summary = "an endless second container keeps the job from completing"
    evidence = "verified"
    source = "kubernetes/kubernetes#25908; native sidecars: Kubernetes 1.29, KEP-753"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers beside the training one whose command is an endless loop."""
        group = subject.group
        if not subject.job.ends or not group.accelerated or len(group.main_containers) < 2:
            return
        for container in group.main_containers:
            if container.accelerator is not None or container.script is None:
                continue
            if any("loop" in command.context and command.name == "sleep" for command in container.script.commands):
                yield self.hit(
                    container,
                    f"{container.name!r} loops for ever, so the pod never completes "
                    f"after training ends: the job stays active and the node's accelerators stay held",
                    "make it a native sidecar: move it to initContainers with restartPolicy: "
                    "Always (Kubernetes 1.29)",
                )
