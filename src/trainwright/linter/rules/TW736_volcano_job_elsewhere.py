"""TW736: a Volcano job that another scheduler places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class VolcanoJobElsewhere(ObjectRule):
    """Only Volcano's scheduler knows gangs and queues of Volcano."""

    id = "TW736"
    severity = "warning"
    category = "operators"
    summary = "a Volcano job is given to another scheduler"
    evidence = "verified"
    source = (
        "volcano-sh/volcano v1.15 docs: schedulerName volcano; minAvailable and queue are read by its scheduler only"
    )
    kinds: ClassVar[tuple[str, ...]] = ("Job",)
    groups: ClassVar[tuple[str, ...]] = ("batch.volcano.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The job's scheduler, and that of its pods."""
        tasks = [task.get("template", "spec", "schedulerName") for task in subject.get("spec", "tasks").elements()]
        for node in (subject.get("spec", "schedulerName"), *tasks):
            if node.string == "default-scheduler":
                yield self.hit(
                    node,
                    "the default scheduler knows neither minAvailable nor queue: it places the pods one by one, and "
                    "half a gang may hold its accelerators and wait",
                    "schedulerName: volcano",
                )
                return
