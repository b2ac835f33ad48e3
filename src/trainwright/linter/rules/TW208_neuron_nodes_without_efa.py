"""TW208: several nodes of a Trainium type that has no EFA."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import node_types_of


class NeuronNodesWithoutEfa(LaunchRule):
    """Neuron's collectives between nodes go over EFA only."""

    id = "TW208"
    severity = "error"
    category = "accelerators"
    summary = "several nodes of a Trainium type that has no EFA"
    evidence = "reported"
    source = (
        "aws-neuron-sdk, multi-node setup: EFA is required on every node; trn1.2xlarge has none; "
        "aws-neuron/aws-neuron-sdk#742"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Multi-node Neuron launches on machines without EFA."""
        nodes = rendezvous.nodes_at_least_two(subject)
        kinds = node_types_of(subject, project)
        if nodes is None or not kinds or not subject.is_neuron or any(kind.efa for kind in kinds):
            return
        if subject.group is not subject.job.groups[0] and subject.job.groups[0].accelerated:
            return
        yield self.hit(
            (subject.group.instance_types or (subject,))[0] if subject.group is not None else subject,
            f"{kinds[0].name} has no EFA interface, and NeuronCores talk between nodes over EFA only: "
            f"{nodes} nodes cannot train together",
            "trn1.32xlarge, trn1n.32xlarge or trn2.48xlarge for several nodes; one node of this type otherwise",
        )
