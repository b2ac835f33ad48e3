"""TW319: NCCL_IB_DISABLE is left on over several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import is_on, spans_nodes, uses_efa


class InfinibandDisabled(JobRule):
    """A workaround for one machine costs the network of many."""

    id = "TW319"
    severity = "warning"
    category = "network"
    summary = "NCCL_IB_DISABLE is left on over several nodes"
    evidence = "reported"
    source = (
        "NCCL documentation, NCCL_IB_DISABLE; hiyouga/LlamaFactory#6111; with the OFI plugin it has no "
        "effect (NCCL src/transport/net_ib/init.cc)"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The switch in multi-node jobs."""
        if not spans_nodes(subject):
            return
        for variable in subject.env_uses("NCCL_IB_DISABLE"):
            if is_on(variable):
                efa = uses_efa(subject)
                why = (
                    "has no effect on EFA, which does not use NCCL's InfiniBand transport"
                    if efa
                    else "switches InfiniBand and RoCE off: traffic between the nodes goes over TCP, at a "
                    "small part of the speed"
                )
                yield self.hit(
                    variable,
                    f"NCCL_IB_DISABLE={variable.value.known} {why}",
                    "remove it",
                    severity="note" if efa else None,
                )
