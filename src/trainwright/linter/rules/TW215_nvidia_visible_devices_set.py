"""TW215: NVIDIA_VISIBLE_DEVICES set by hand in a pod."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


class NvidiaVisibleDevicesSet(PodRule):
    """The device plugin chooses the GPUs through this variable."""

    id = "TW215"
    severity = "warning"
    category = "accelerators"
    summary = "NVIDIA_VISIBLE_DEVICES set by hand in a pod"
    evidence = "verified"
    source = (
        "NVIDIA/k8s-device-plugin README, device list strategy envvar: the plugin itself sets "
        "NVIDIA_VISIBLE_DEVICES; the pod's own value is applied after it"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Values that a person chose."""
        if subject.group.role == "daemon":
            return
        for container in subject.group.containers:
            variable = container.env.get("NVIDIA_VISIBLE_DEVICES")
            value = variable.value.known if variable is not None and variable.origin == "kubernetes" else None
            if variable is None or value is None:
                continue
            hides = value.strip().lower() in ("", "none", "void", "-1")
            if container.accelerator is None and (hides or not subject.job.accelerated):
                continue
            if hides:
                why = (
                    f"NVIDIA_VISIBLE_DEVICES={value or '(empty)'} hides the GPUs that the device plugin "
                    "gives this container"
                )
            elif container.accelerator is not None:
                why = (
                    f"NVIDIA_VISIBLE_DEVICES={value} overrides the device plugin: the container may see "
                    "GPUs that belong to other pods, and use them"
                )
            else:
                why = f"NVIDIA_VISIBLE_DEVICES={value} gives a container that asks for no GPU those of other pods"
            yield self.hit(variable, why, "remove it, and ask for GPUs with limits: {nvidia.com/gpu: N}")
