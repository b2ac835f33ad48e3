"""TW307: NCCL or Gloo is bound to the loopback interface over several nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import IFNAMES, interfaces, spans_nodes


class InterfaceIsLoopback(JobRule):
    """Nothing leaves the node over ``lo``."""

    id = "TW307"
    severity = "error"
    category = "network"
    summary = "NCCL or Gloo is bound to the loopback interface over several nodes"
    evidence = "reported"
    source = (
        "NVIDIA/nccl#286; NCCL src/misc/socket.cc: with NCCL_SOCKET_IFNAME set, only matching interfaces are used"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Loopback in jobs that span nodes."""
        if not spans_nodes(subject):
            return
        for variable in subject.env_uses(*IFNAMES):
            value = variable.value.known
            excludes, _, entries = interfaces(value or "")
            if not entries or excludes:
                continue
            if set(entries) == {"lo"}:
                yield self.hit(
                    variable,
                    f"{variable.name}={value}: ranks announce 127.0.0.1, which the other nodes take "
                    "for themselves; the first collective hangs",
                    "remove it (the right interface is usually found), or the name of a routable one",
                )
            elif all(re.match(r"(docker|virbr|veth|br-)", entry) for entry in entries):
                yield self.hit(
                    variable,
                    f"{variable.name}={value} is a bridge inside the node: its address cannot be "
                    "reached from the others, and the first collective hangs",
                    "remove it, or the name of a routable interface",
                )
