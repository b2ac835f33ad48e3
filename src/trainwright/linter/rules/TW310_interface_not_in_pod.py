"""TW310: an interface name that ordinary pods do not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.network import IFNAMES, extra_networks, interfaces, settings


class InterfaceNotInPod(PodRule):
    """The host's cards are not in the pod."""

    id = "TW310"
    severity = "error"
    category = "network"
    summary = "an interface name that ordinary pods do not have"
    evidence = "verified"
    source = "pods of the VPC CNI (and most others) have lo and eth0 only; NCCL src/misc/socket.cc: find or fail"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Host names of interfaces in ordinary pods."""
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
            excludes, _, entries = interfaces(value or "")
            if (
                entries
                and not excludes
                and all(re.match(r"(en[spoxP]|ib|bond|wl|mlx|p\d+p)\w*", entry) for entry in entries)
            ):
                yield self.hit(
                    variable,
                    f"{variable.name}={value}: an ordinary pod has only eth0 (and lo), so no interface "
                    "matches and initialisation fails",
                    "eth0, or remove it; ens* and enp* are names of the host",
                )
