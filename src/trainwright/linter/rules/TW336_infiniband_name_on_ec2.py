"""TW336: an InfiniBand interface on machines whose network is EFA."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import IFNAMES, interfaces, spans_nodes, uses_efa


class InfinibandNameOnEc2(JobRule):
    """EFA is no InfiniBand: its machines have Ethernet names only."""

    id = "TW336"
    severity = "error"
    category = "network"
    summary = "NCCL or Gloo is bound to an InfiniBand interface on machines with EFA"
    evidence = "verified"
    source = (
        "EC2 instances with EFA have Ethernet interfaces (ens*, enp*, eth*) and no IP over InfiniBand; NCCL "
        "src/misc/socket.cc: with NCCL_SOCKET_IFNAME set, only matching interfaces are used, and none is an error"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Interfaces called ib* beside EFA; pods without host network are TW310's."""
        if subject.slurm is None or not spans_nodes(subject) or not uses_efa(subject):
            return
        for variable in subject.env_uses(*IFNAMES):
            excludes, _, entries = interfaces(variable.value.known or "")
            if entries and not excludes and all(re.fullmatch(r"ib(s|p)?\d*\w*", entry) for entry in entries):
                yield self.hit(
                    variable,
                    f"{variable.name}={variable.value.known}: the job uses EFA, and machines with EFA have no "
                    "InfiniBand interface: no interface matches, and initialisation fails on every rank",
                    "remove it (the right interface is found), or ^lo,docker,veth",
                )
