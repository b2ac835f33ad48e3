"""TW221: a Neuron image whose PyTorch is out of support."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


class NeuronPytorchEnded(PodRule):
    """Old Neuron releases get no fixes and stop matching the driver."""

    id = "TW221"
    severity = "warning"
    category = "accelerators"
    summary = "a Neuron image whose PyTorch is out of support"
    evidence = "verified"
    source = (
        "aws-neuron-sdk announcements: PyTorch 1.13, 2.0 and 2.1 ended with 2.22, 2.6 with 2.27, 2.7 and "
        "2.8 with 2.29; no pytorch-training-neuronx images from 2.31 on"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Versions in the tags of the public images."""
        for container in subject.group.containers:
            image = container.image.string or ""
            found = re.search(r"pytorch-(?:training|inference)-neuronx:(\d+\.\d+)", image)
            row = read_rows("neuron").get(found[1]) if found else None
            if found and row:
                recent = found[1] in ("2.7", "2.8")
                yield self.hit(
                    container.image,
                    f"PyTorch {found[1]} is out of support since Neuron {row['ended']}"
                    + (f" ({row['ended_on']})" if row.get("ended_on") else "")
                    + ": no fixes, and newer drivers may not run it",
                    "pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.29.1-ubuntu24.04, the last line "
                    "with PyTorch/XLA training",
                    severity="note" if recent else None,
                )
