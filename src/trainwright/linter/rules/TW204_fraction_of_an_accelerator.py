"""TW204: a fraction of a device."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.pods import is_extended


class FractionOfAnAccelerator(PodRule):
    """Devices are counted in whole numbers."""

    id = "TW204"
    severity = "error"
    category = "accelerators"
    summary = "a fraction of a device"
    evidence = "verified"
    source = "kubernetes pkg/apis/core/validation: must be an integer (extended resources)"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Amounts that are no integer."""
        for container in subject.group.containers:
            for part in ("limits", "requests"):
                for key, value in container.asked(part).pairs():
                    amount = value.quantity
                    if amount is not None and "/" in key.raw and is_extended(key.raw) and amount != int(amount):
                        way = (
                            "aws.amazon.com/neuroncore: a whole number of cores"
                            if "neuron" in key.raw
                            else "a whole number; for a part of a GPU a MIG profile (nvidia.com/mig-…) or "
                            "time-slicing"
                        )
                        yield self.hit(
                            value,
                            f"{key.raw}: {value.raw} is not a whole number, and devices cannot be "
                            "split: the API server refuses the pod",
                            way,
                        )
