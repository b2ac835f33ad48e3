"""TW312: an exclusion list that does not exclude lo."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import covers, interfaces, spans_nodes


class InterfaceListKeepsLoopback(JobRule):
    """One's own list replaces the default one."""

    id = "TW312"
    severity = "warning"
    category = "network"
    summary = "an exclusion list that does not exclude lo"
    evidence = "verified"
    source = (
        "NCCL src/misc/socket.cc (2.30): the default excludes docker, lo and virbr, but a list of one's "
        "own replaces it"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Exclusions that leave loopback in."""
        if not spans_nodes(subject):
            return
        for variable in subject.env_uses("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"):
            value = variable.value.known
            excludes, exact, entries = interfaces(value or "")
            if excludes and entries and not covers(entries, "lo", exact=exact):
                yield self.hit(
                    variable,
                    f"{variable.name}={value} replaces the default list, which excludes lo: ranks may "
                    "announce 127.0.0.1 and hang",
                    f"^lo,{','.join(entries)}",
                )
