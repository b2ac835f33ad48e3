"""TW323: RDMA forced on a machine whose EFA has none."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.machines import types
from trainwright.linter.view.network import is_on, settings


class DeviceRdmaNotSupported(PodRule):
    """The first EFA generation cannot read remote memory."""

    id = "TW323"
    severity = "warning"
    category = "network"
    summary = "RDMA forced on a machine whose EFA has none"
    evidence = "reported"
    source = (
        "awslabs/awsome-distributed-ai#455; aws/aws-ofi-nccl#69; libfabric: FI_EFA_USE_DEVICE_RDMA only "
        "where the device supports it"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """The switch on devices of the first generation."""
        kinds = [kind for _, kind in types(subject.job, subject.group, project)]
        if not kinds or any(kind.rdma is not False for kind in kinds):
            return
        for variable in settings(subject.job, subject.group, "FI_EFA_USE_DEVICE_RDMA"):
            if is_on(variable):
                yield self.hit(
                    variable,
                    f"the EFA device of {kinds[0].name} has no RDMA: forcing it makes initialisation fail",
                    "remove it: the plugin decides by the device",
                )
