"""TW212: a job over several nodes that takes only a part of each."""

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

_OTHERS = ("RayJob", "RayCluster", "RayService", "Deployment", "StatefulSet", "LeaderWorkerSet", "DaemonSet")


class PartOfANodeInAGang(PodRule):
    """Whole machines first, several machines then."""

    id = "TW212"
    severity = "warning"
    category = "accelerators"
    summary = "a job over several nodes that takes only a part of each"
    evidence = "verified"
    source = "EC2 instance type descriptions; EFA interfaces and NVSwitch are shared by the whole machine"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Gangs of partial machines."""
        group, count, nodes = subject.group, subject.group.accelerators, subject.job.nodes.known
        if (
            not nodes
            or nodes < 2
            or group.role != "worker"
            or not isinstance(count, Known)
            or subject.job.frontend in _OTHERS
            or not subject.job.ends
        ):
            return
        kinds = [kind for _, kind in types(subject.job, group, project)]
        resource = group.accelerated[0].accelerator if group.accelerated else None
        if (
            not kinds
            or any(kind.resource != resource or kind.rdma is not True or count.value >= kind.count for kind in kinds)
            or not any(launch.tool and launch.group is group for launch in subject.job.launches)
        ):
            return
        least = min(kind.count for kind in kinds)
        yield self.hit(
            count,
            f"{nodes} pods with {count.value} of the {least} GPUs of a {kinds[0].name} each: what "
            "could run over NVLink runs over the network, and others share the machine's EFA "
            "interfaces",
            f"{-(-nodes * count.value // least)} pods with {least} GPUs each",
        )
