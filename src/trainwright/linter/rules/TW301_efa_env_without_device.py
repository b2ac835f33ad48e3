"""TW301: EFA is switched on, but the pod gets no EFA device."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Absent
from trainwright.linter.view.network import settings
from trainwright.linter.view.pods import EFA


class EfaEnvWithoutDevice(PodRule):
    """``FI_PROVIDER=efa`` needs ``vpc.amazonaws.com/efa`` in the same container."""

    id = "TW301"
    severity = "error"
    category = "network"
    summary = "FI_PROVIDER=efa in a container that asks for no EFA device"
    evidence = "verified"
    source = (
        "the EFA device plugin mounts /dev/infiniband only into containers that request "
        "vpc.amazonaws.com/efa; awslabs/ai-on-sagemaker-hyperpod#134"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Accelerated containers with the variable and without the resource."""
        if subject.group.role == "launcher":
            return
        for container in subject.group.accelerated:
            variable = next(settings(subject.job, subject.group, "FI_PROVIDER"), None)
            if variable is None or variable.value.known != "efa" or not isinstance(container.request(EFA), Absent):
                continue
            if (
                subject.group.spec.get("containers").open
                or container.asked("limits").open
                or container.asked("claims").exists
                or container.node.get("resources").open
                or container.node.get("securityContext", "privileged").boolean
            ):
                continue
            yield self.hit(
                variable,
                "libfabric is told to use EFA, but the container requests no "
                "vpc.amazonaws.com/efa, so it sees no EFA device: libfabric finds no provider, or NCCL "
                "falls back to TCP",
                "vpc.amazonaws.com/efa in requests and limits: as many as the instance type has",
            )
