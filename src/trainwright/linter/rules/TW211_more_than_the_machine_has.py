"""TW211: a pod asks for more accelerators than its machine has."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.values import Known
from trainwright.linter.view.machines import types


class MoreThanTheMachineHas(PodRule):
    """A pod runs on one node."""

    id = "TW211"
    severity = "error"
    category = "accelerators"
    summary = "a pod asks for more accelerators than its machine has"
    evidence = "verified"
    source = "EC2 instance type descriptions (instances.json, node_types.json)"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Counts and kinds against the machines."""
        group, count = subject.group, subject.group.accelerators
        resource = group.accelerated[0].accelerator if group.accelerated else None
        found = types(subject.job, group, project)
        if (
            not found
            or not isinstance(count, Known)
            or resource
            not in (
                "nvidia.com/gpu",
                "aws.amazon.com/neuron",
                "aws.amazon.com/neurondevice",
                "aws.amazon.com/neuroncore",
            )
        ):
            return
        fitting = [kind for _, kind in found if kind.is_neuron == ("neuron" in resource)]
        names = ", ".join(dict.fromkeys(kind.name for _, kind in found))
        if not fitting:
            yield self.hit(
                count,
                f"{names} has no {resource}: the pods stay Pending",
                f"{found[0][1].resource}, or a machine that has {resource}",
            )
            return
        most = max((kind.cores or 0) if resource.endswith("neuroncore") else kind.count for kind in fitting)
        if most and count.value > most:
            yield self.hit(
                count,
                f"the pod asks for {count.value} {resource}, but {names} has {most}: it stays Pending for ever",
                f"{most}, or a larger machine",
            )
