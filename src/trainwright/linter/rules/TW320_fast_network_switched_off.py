"""TW320: the fast network is switched off."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import spans_nodes, uses_efa


class FastNetworkSwitchedOff(JobRule):
    """NCCL then speaks TCP."""

    id = "TW320"
    severity = "warning"
    category = "network"
    summary = "the fast network is switched off"
    evidence = "verified"
    source = (
        "NCCL documentation: NCCL_NET=Socket, NCCL_NET_PLUGIN=none; libfabric fi_provider(7): FI_PROVIDER "
        "selects tcp or sockets"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Values that select TCP."""
        if not spans_nodes(subject):
            return
        for variable in subject.env_uses("NCCL_NET", "NCCL_NET_PLUGIN", "FI_PROVIDER"):
            value = (variable.value.known or "").strip()
            off = (
                value.lower()
                in {
                    "NCCL_NET": ("socket",),
                    "NCCL_NET_PLUGIN": ("none",),
                    "FI_PROVIDER": ("tcp", "sockets", "udp", "tcp;ofi_rxm"),
                }[variable.name]
            )
            if off:
                yield self.hit(
                    variable,
                    f"{variable.name}={value} makes traffic between the nodes use TCP"
                    + (", although the job holds EFA interfaces" if uses_efa(subject) else ""),
                    "remove it: NCCL finds EFA or InfiniBand by itself",
                )
