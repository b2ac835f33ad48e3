"""TW218: NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES names cores that the container does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import at_most


class NeuronCoresBeyondDevices(LaunchRule):
    """The container's devices are numbered from 0."""

    id = "TW218"
    severity = "warning"
    category = "accelerators"
    summary = "NEURON_RT_VISIBLE_CORES or NEURON_RT_NUM_CORES names cores that the container does not have"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, Neuron runtime configuration: cores are numbered from 0 over the devices in the container"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Core numbers against devices."""
        if not subject.is_neuron or subject.container is None:
            return
        most = at_most(subject, project)
        for name in ("NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"):
            variable = subject.env(name)
            text = variable.value.known if variable is not None else None
            if variable is None or text is None or most is None or variable.place is None:
                continue
            numbers = [int(part) for part in re.findall(r"\d{1,4}", text)]
            needed = 0 if not numbers else max(numbers) + (name == "NEURON_RT_VISIBLE_CORES")
            if needed > most:
                yield self.hit(
                    variable,
                    f"{name}={text} needs {needed} NeuronCores, but the container's devices have "
                    f"{most}: the runtime fails to start",
                    f"remove it (torchrun gives each process its core), or stay within {most} cores",
                )
            elif name == "NEURON_RT_VISIBLE_CORES":
                listed = cores(text)
                started = subject.processes_per_node.known or 0
                if subject.tool == "torchrun" and listed is not None and 1 < listed < started:
                    yield self.hit(
                        variable,
                        f"{name}={text} shows {listed} NeuronCores to {started} processes: a core belongs to one "
                        "process, so the others fail to start",
                        f"remove it (torchrun gives each process its core), or --nproc_per_node={listed}",
                        severity="error",
                    )


def cores(text: str) -> int | None:
    """How many cores a list like ``0-7,16`` names; None when it is not such a list."""
    count = 0
    for part in text.strip().strip("\"'").split(","):
        found = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        if found is None or (found[2] and int(found[2]) < int(found[1])):
            return None
        count += int(found[2] or found[1]) - int(found[1]) + 1
    return count
