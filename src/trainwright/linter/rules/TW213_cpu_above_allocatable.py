"""TW213: a pod asks for more CPU than the machine leaves to pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.values import Absent
from trainwright.linter.view.machines import types


class CpuAboveAllocatable(PodRule):
    """The kubelet keeps a part of every CPU count."""

    id = "TW213"
    severity = "error"
    category = "accelerators"
    summary = "a pod asks for more CPU than the machine leaves to pods"
    evidence = "verified"
    source = (
        "allocatable CPU of EKS nodes as Karpenter computes it (1.14): p4d.24xlarge 95.69 of 96; kubelet's "
        "kubeReserved"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Sums of requests against the largest machine."""
        asked = [(container.request("cpu"), container) for container in subject.group.main_containers]
        total = sum(value.known or 0.0 for value, _ in asked)
        kinds = [kind for _, kind in types(subject.job, subject.group, project)]
        if not kinds or not total or any(kind.cpu is None and kind.vcpus is None for kind in kinds):
            return
        most = max((kind.cpu if kind.cpu is not None else 1000 * (kind.vcpus or 0)) for kind in kinds) / 1000
        if total <= most:
            return
        largest = max(asked, key=lambda pair: pair[0].known or 0.0)
        copied = isinstance(largest[1].asked("requests").get("cpu").as_quantity(), Absent)
        yield self.hit(
            largest[0],
            f"the pod asks for {total:g} CPUs"
            + (" (limits count as requests)" if copied else "")
            + f", but {kinds[0].name} leaves {most:g} of its {kinds[0].vcpus} to pods: it fits no node "
            "and stays Pending",
            f'requests: {{cpu: "{int(most * 0.95)}"}}, which leaves room for daemon sets',
        )
