"""TW123: the Job uses the completion index but is not Indexed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob

_WHY = "the Job is NonIndexed (the default), so its pods have no index:"
_INSTEAD = "completionMode: Indexed, with completions equal to parallelism"


class CompletionIndexWithoutIndexed(JobRule):
    """A NonIndexed Job gives its pods no index."""

    id = "TW123"
    severity = "error"
    category = "launch"
    summary = "the Job uses the completion index but is not Indexed"
    evidence = "reproduced"
    source = (
        "kubernetes/api batch/v1 CompletionMode: the index annotation is set only for Indexed Jobs; "
        "torchrun --node_rank= is an argparse error (reproduced)"
    )
    frontends: ClassVar[tuple[str, ...]] = ("Job", "CronJob")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Uses of the index in Jobs that have none."""
        spec = subject.get("spec") if subject.frontend == "Job" else subject.get("spec", "jobTemplate", "spec")
        mode = spec.get("completionMode")
        if mode.unknown or mode.string == "Indexed" or spec.open:
            return
        for container in subject.containers():
            for entry in container.node.get("env").elements():
                path = entry.get("valueFrom", "fieldRef", "fieldPath")
                if "job-completion-index" in (path.string or ""):
                    yield self.hit(path, f"{_WHY} the annotation is never set and the value is empty", _INSTEAD)
                    return
        for launch in subject.launches:
            for flag in launch.flags:
                names = (
                    {r.name for r in flag.value.all_references() if r.variable is None}
                    if flag.value is not None
                    else set()
                )
                if "JOB_COMPLETION_INDEX" in names:
                    yield self.hit(
                        flag,
                        f"{_WHY} JOB_COMPLETION_INDEX is not set, and torchrun stops at an empty --{flag.name}",
                        _INSTEAD,
                    )
                    return
