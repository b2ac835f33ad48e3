"""TW321: NVLink or shared memory between GPUs is switched off."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import is_on


class PeerAccessDisabled(JobRule):
    """A debugging switch that stayed on."""

    id = "TW321"
    severity = "warning"
    category = "network"
    summary = "NVLink or shared memory between GPUs is switched off"
    evidence = "verified"
    source = "NCCL documentation, NCCL_P2P_DISABLE and NCCL_SHM_DISABLE"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Switches that close the fast ways within a node."""
        if (
            not any(
                (launch.processes_per_node.known or launch.accelerators_per_node.known or 1) > 1
                for launch in subject.training_launches
            )
            and (subject.accelerators_per_node.known or 1) < 2
        ):
            return
        for variable in subject.env_uses("NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_P2P_LEVEL"):
            level = variable.name == "NCCL_P2P_LEVEL"
            if (level and variable.value.known in ("LOC", "0")) or (not level and is_on(variable)):
                path = (
                    "shared memory between processes"
                    if "SHM" in variable.name
                    else "direct access between GPUs (NVLink, PCIe)"
                )
                yield self.hit(
                    variable,
                    f"{variable.name}={variable.value.known} switches {path} off: the GPUs of a node "
                    "exchange data over a slower way",
                    "remove it (on servers with NVLink it is never needed)",
                )
