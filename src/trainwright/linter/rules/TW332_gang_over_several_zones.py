"""TW332: EFA pods of one job may land in several zones."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.machines import accepts, pool_requirement
from trainwright.linter.view.network import spans_nodes
from trainwright.linter.view.pods import EFA

_ZONES = ("topology.kubernetes.io/zone", "topology.k8s.aws/zone-id", "failure-domain.beta.kubernetes.io/zone")


class GangOverSeveralZones(PodRule):
    """EFA does not leave the zone."""

    id = "TW332"
    severity = "warning"
    category = "network"
    summary = "EFA pods of one job may land in several zones"
    evidence = "verified"
    source = (
        "EC2 documentation, EFA: EFA traffic stays within one Availability Zone (and is not routable "
        "between VPC subnets on older generations)"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """EFA gangs and the zones of their pools."""
        group = subject.group
        if (
            group.role != "worker"
            or not subject.job.ends
            or not spans_nodes(subject.job)
            or not any(container.request(EFA).known for container in group.accelerated)
        ):
            return
        if (
            any(group.selected(label) for label in _ZONES)
            or group.spec.get("affinity", "podAffinity").exists
            or any("topology" in key.raw for key, _ in group.metadata.get("annotations").pairs())
        ):
            return
        for pool in project.related(subject.job.document, "NodePool"):
            zones = next((values for label in _ZONES for values in [pool_requirement(pool, label)] if values), None)
            if accepts(pool, group) and zones and len({zone.value for zone in zones}) > 1:
                listed = ", ".join(zone.value for zone in zones)
                yield self.hit(
                    zones[1],
                    f"the pods of this job may land in {listed}, and EFA does not reach from one zone "
                    "to another: the first collective hangs",
                    "one zone in the pool of a gang, or topology.kubernetes.io/zone in the pods' nodeSelector",
                )
                return
