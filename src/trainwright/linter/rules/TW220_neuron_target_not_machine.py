"""TW220: NEURON_CC_FLAGS compiles for another generation than the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import node_types_of


class NeuronTargetNotMachine(LaunchRule):
    """The compiler's target must be the machine's."""

    id = "TW220"
    severity = "warning"
    category = "accelerators"
    summary = "NEURON_CC_FLAGS compiles for another generation than the machine"
    evidence = "verified"
    source = "neuronx-cc --target trn1 | inf2 | trn2 | trn3; NEFFs run on their own generation"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The target in the flags against the machine."""
        variable = subject.env("NEURON_CC_FLAGS")
        text = variable.value.known if variable is not None else None
        found = re.search(r"--target[= ]+(\w+)", text or "")
        kinds = node_types_of(subject, project)
        if variable is None or found is None or not kinds or not all(kind.is_neuron for kind in kinds):
            return
        generations = {
            re.split(r"[un.]", kind.name.replace("trn", "TRN").replace("inf", "INF"))[0].lower() for kind in kinds
        }
        if found[1] not in generations and not (found[1] == "trn1n" and "trn1" in generations):
            yield self.hit(
                variable,
                f"graphs are compiled for {found[1]}, but the pods run on {kinds[0].name}: they do not load there",
                f"--target={sorted(generations)[0]}, or leave it out",
            )
