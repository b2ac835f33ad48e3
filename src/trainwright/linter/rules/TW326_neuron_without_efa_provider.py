"""TW326: Neuron over several nodes without FI_PROVIDER=efa."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import spans_nodes


class NeuronWithoutEfaProvider(JobRule):
    """Neuron's collectives do not choose EFA by themselves."""

    id = "TW326"
    severity = "warning"
    category = "network"
    summary = "Neuron over several nodes without FI_PROVIDER=efa"
    evidence = "verified"
    source = "aws-neuron-sdk, trn1 multi-node set-up: FI_PROVIDER=efa and FI_EFA_USE_DEVICE_RDMA=1 on every node"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Multi-node Neuron jobs without a provider."""
        if (
            "neuron" not in (subject.accelerator or "")
            or not spans_nodes(subject)
            or any(True for _ in subject.env_uses("FI_PROVIDER"))
        ):
            return
        if any(container.env_open for container in subject.containers()) or not subject.training_launches:
            return
        yield self.hit(
            subject.training_launches[0],
            "NeuronCores of different nodes talk over EFA, and FI_PROVIDER is not set: libfabric may "
            "choose TCP, or the ring cannot be built",
            "FI_PROVIDER=efa and FI_EFA_USE_DEVICE_RDMA=1 in the containers' env",
        )
