"""TW210: some but not all Neuron devices of a machine."""

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


class PartOfTheNeuronDevices(PodRule):
    """Neuron devices must be neighbours."""

    id = "TW210"
    severity = "warning"
    category = "accelerators"
    summary = "some but not all Neuron devices of a machine"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, Neuron scheduler extension: needed when a pod asks for more than one and fewer "
        "than all devices"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Counts between one and all."""
        group = subject.group
        count = group.accelerators
        if (
            subject.job.accelerator not in ("aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
            or not isinstance(count, Known)
            or group.spec.get("schedulerName").exists
        ):
            return
        kinds = [known for _, known in types(subject.job, group, project)]
        if kinds and all(kind.is_neuron and 1 < count.value < kind.count for kind in kinds):
            yield self.hit(
                count,
                f"{count.value} of the {kinds[0].count} Neuron devices of {kinds[0].name}: the default "
                "scheduler does not see to it that they are connected",
                f"{kinds[0].count} (the whole machine), 1, or the Neuron scheduler extension (schedulerName)",
            )
