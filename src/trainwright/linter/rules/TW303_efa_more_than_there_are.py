"""TW303: more EFA interfaces than the machine has."""

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
from trainwright.linter.view.pods import EFA


class EfaMoreThanThereAre(PodRule):
    """No node can offer them."""

    id = "TW303"
    severity = "error"
    category = "network"
    summary = "more EFA interfaces than the machine has"
    evidence = "verified"
    source = "EC2 instance type descriptions (EFA interfaces per type)"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Counts against the machines."""
        kinds = [kind for _, kind in types(subject.job, subject.group, project)]
        if not kinds:
            return
        most = max(kind.efa for kind in kinds)
        for container in subject.group.main_containers:
            asked = container.request(EFA)
            if isinstance(asked, Known) and asked.value > most:
                names = ", ".join(dict.fromkeys(kind.name for kind in kinds))
                has = f"{most}" if most else "none"
                yield self.hit(
                    asked,
                    f"the container asks for {asked.value:g} EFA interfaces, but {names} has {has}: "
                    "the pod stays Pending for ever",
                    f"vpc.amazonaws.com/efa: {most}"
                    if most
                    else "remove vpc.amazonaws.com/efa, or use a machine with EFA (p4d, p5, trn1.32xlarge …)",
                )
