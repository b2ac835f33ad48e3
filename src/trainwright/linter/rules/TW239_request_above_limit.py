"""TW239: a container asks for more than it may use."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_RESOURCES = ("cpu", "memory", "ephemeral-storage")


class RequestAboveLimit(PodRule):
    """Requests must not exceed limits."""

    id = "TW239"
    severity = "error"
    category = "accelerators"
    summary = "a container requests more of a resource than its limit"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/apis/core/validation/validation.go, ValidateContainerResourceRequirements: "
        "must be less than or equal to limit"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """CPU, memory and disk of every container."""
        for container in subject.group.containers:
            for resource in _RESOURCES:
                asked = container.asked("requests").get(resource)
                most = container.asked("limits").get(resource)
                if asked.quantity is None or most.quantity is None or asked.quantity <= most.quantity:
                    continue
                yield self.hit(
                    asked,
                    f"{container.name!r} requests {asked.raw} of {resource} and may use {most.raw}: the API server "
                    "refuses the pod",
                    f"a limit of at least {asked.raw}, or a request of at most {most.raw}",
                )
