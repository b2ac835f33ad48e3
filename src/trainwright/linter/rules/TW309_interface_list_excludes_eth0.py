"""TW309: the interface list excludes the pod's only interface."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.network import IFNAMES, covers, extra_networks, interfaces, settings


class InterfaceListExcludesEth0(PodRule):
    """In a pod, ``eth`` is all there is."""

    id = "TW309"
    severity = "error"
    category = "network"
    summary = "the interface list excludes the pod's only interface"
    evidence = "verified"
    source = (
        "pods of the VPC CNI (and most others) have lo and eth0 only; NCCL src/misc/socket.cc: find or "
        "fail; awslabs/awsome-distributed-ai#539"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Exclusions in ordinary pods."""
        group = subject.group
        if (
            group.host_network
            or group.spec.get("hostNetwork").unknown
            or extra_networks(group)
            or group.role == "daemon"
        ):
            return
        for variable in settings(subject.job, group, *IFNAMES):
            value = variable.value.known
            excludes, exact, entries = interfaces(value or "")
            if excludes and covers(entries, "eth0", exact=exact):
                yield self.hit(
                    variable,
                    f"{variable.name}={value} excludes eth0, the only interface of an ordinary pod: "
                    "NCCL finds none and stops",
                    "^lo (or eth0); the longer list is for hosts whose card is called ens* or enp*",
                )
