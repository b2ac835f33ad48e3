"""TW302: a whole machine, but only some of its EFA interfaces."""

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
from trainwright.linter.view.network import spans_nodes
from trainwright.linter.view.pods import EFA


class EfaPartlyRequested(PodRule):
    """Each EFA interface carries its share of the bandwidth."""

    id = "TW302"
    severity = "warning"
    category = "network"
    summary = "a whole machine, but only some of its EFA interfaces"
    evidence = "verified"
    source = (
        "EC2 instance type descriptions: p5.48xlarge 32, p5en 16, p4d 4, trn1.32xlarge 8, trn2 16; "
        "kubernetes-sigs/karpenter#2440"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """EFA interfaces of whole machines."""
        group, accelerators = subject.group, subject.group.accelerators.known
        kinds = [kind for _, kind in types(subject.job, group, project)]
        if not kinds or not accelerators or not spans_nodes(subject.job):
            return
        for container in group.accelerated:
            asked = container.request(EFA)
            least = min(kind.efa for kind in kinds)
            if (
                isinstance(asked, Known)
                and 0 < asked.value < least
                and all(accelerators >= kind.count for kind in kinds)
            ):
                yield self.hit(
                    asked,
                    f"the pod takes all {kinds[0].count} accelerators of a {kinds[0].name}, but "
                    f"{asked.value:g} of its {least} EFA interfaces: traffic between nodes gets "
                    f"{100 * asked.value / least:.0f} % of the bandwidth",
                    f"vpc.amazonaws.com/efa: {least} in requests and limits",
                    fix=[asked.span.edit(str(least))],
                )
