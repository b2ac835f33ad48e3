"""TW203: an extended resource with different request and limit."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.pods import is_extended


class RequestNotLimit(PodRule):
    """For these resources both numbers must be equal."""

    id = "TW203"
    severity = "error"
    category = "accelerators"
    summary = "an extended resource with different request and limit"
    evidence = "verified"
    source = "kubernetes pkg/apis/core/validation: must be equal to %s limit"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Both numbers of one name."""
        for container in subject.group.containers:
            for key, value in container.asked("requests").pairs():
                limit = container.asked("limits").get(key.raw)
                if (
                    is_extended(key.raw)
                    and value.quantity is not None
                    and limit.quantity is not None
                    and value.quantity != limit.quantity
                ):
                    yield self.hit(
                        value,
                        f"{key.raw}: the request is {value.raw}, the limit {limit.raw}; the API server "
                        "refuses pods in which they differ",
                        f"{limit.raw} in both, or only limits",
                    )
