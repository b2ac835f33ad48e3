"""TW313: eth0 on the network of an EC2 host."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts import node_types
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.network import IFNAMES, interfaces, settings


class Eth0OnHostNetwork(PodRule):
    """The host's card is not called eth0."""

    id = "TW313"
    severity = "warning"
    category = "network"
    summary = "eth0 on the network of an EC2 host"
    evidence = "verified"
    source = (
        "AL2023 and Bottlerocket use predictable names (ens*, enp*); AWS EFA cheat sheet "
        "(awsome-distributed-training)"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """eth names on host network."""
        group = subject.group
        if not group.host_network or not any(node_types.get(name.value) for name in group.instance_types):
            return
        for variable in settings(subject.job, group, *IFNAMES):
            excludes, _, entries = interfaces(variable.value.known or "")
            if not excludes and entries and all(entry.startswith("eth") for entry in entries):
                yield self.hit(
                    variable,
                    f"{variable.name}={variable.value.known}, but with host network the pod sees the "
                    "host's cards, called ens* or enp* on current AMIs: none matches",
                    "^lo,docker,veth,eni,pod-id-link",
                )
