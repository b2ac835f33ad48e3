"""TW209: Neuron devices and NeuronCores asked for in one container."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


class NeuronDevicesAndCores(PodRule):
    """Both names count the same chips."""

    id = "TW209"
    severity = "error"
    category = "accelerators"
    summary = "Neuron devices and NeuronCores asked for in one container"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, Kubernetes device plugin: aws.amazon.com/neuron and aws.amazon.com/neuroncore "
        "count the same hardware"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Both names in one container."""
        for container in subject.group.containers:
            devices, cores = (
                container.asked("limits").get("aws.amazon.com/neuron"),
                container.asked("limits").get("aws.amazon.com/neuroncore"),
            )
            if devices.quantity and cores.quantity:
                yield self.hit(
                    cores,
                    "aws.amazon.com/neuron (whole devices) and aws.amazon.com/neuroncore (their cores) "
                    "count the same chips: asking for both reserves them twice, and the pod may never "
                    "fit, or gets cores of devices that it does not hold",
                    "only aws.amazon.com/neuron for whole devices, or only aws.amazon.com/neuroncore",
                    severity=None if any(one.launcher or one.is_python for one in container.launches) else "warning",
                )
