"""TW202: an extended resource in requests but not in limits."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.fields import is_fragment
from trainwright.linter.view.pods import is_extended


class AcceleratorWithoutLimit(PodRule):
    """GPUs, EFA devices and huge pages cannot be overcommitted."""

    id = "TW202"
    severity = "error"
    category = "accelerators"
    summary = "an extended resource in requests but not in limits"
    evidence = "verified"
    source = (
        "k8s.io/kubernetes@v1.36.3 pkg/apis/core/validation/validation.go, validateResourceRequirements: Limit must "
        "be set for non overcommitable resources; kubeflow/mpi-operator#25"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Requests whose limit is missing."""
        if subject.job.object is not None and is_fragment(subject.job.object, project):
            return
        for container in subject.group.containers:
            limits = container.asked("limits")
            if limits.open or limits.unknown:
                continue
            for key, value in container.asked("requests").pairs():
                if is_extended(key.raw) and limits.get(key.raw).absent and not value.unknown and value.quantity:
                    yield self.hit(
                        key,
                        f"{key.raw} stands in requests but not in limits: the API server refuses the "
                        "pod (such resources cannot be overcommitted), and the job never starts",
                        f"limits: {{{key.raw}: {value.raw}}} (requests then follow by themselves)",
                    )
