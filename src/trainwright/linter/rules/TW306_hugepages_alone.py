"""TW306: huge pages without CPU or memory."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.values import Absent


class HugepagesAlone(PodRule):
    """The API server wants a second resource beside them."""

    id = "TW306"
    severity = "error"
    category = "network"
    summary = "huge pages without CPU or memory"
    evidence = "verified"
    source = "kubernetes pkg/apis/core/validation: HugePages require cpu or memory"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers with huge pages only."""
        for container in subject.group.containers:
            limits, requests = container.asked("limits"), container.asked("requests")
            if limits.open or requests.open:
                continue
            for key, value in [*limits.pairs(), *requests.pairs()]:
                if (
                    key.raw.startswith("hugepages-")
                    and value.quantity
                    and all(isinstance(container.request(name), Absent) for name in ("cpu", "memory"))
                ):
                    yield self.hit(
                        key,
                        f"{key.raw} without a request for cpu or memory: the API server refuses the "
                        "pod (HugePages require cpu or memory)",
                        "add memory (and cpu) to limits",
                    )
                    break
