"""TW304: several nodes with EFA, and nobody asks for it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.values import Absent
from trainwright.linter.view.machines import types
from trainwright.linter.view.network import settings, spans_nodes, stage_of_its_own
from trainwright.linter.view.pods import EFA


class EfaNotRequested(PodRule):
    """EFA has to be asked for."""

    id = "TW304"
    severity = "warning"
    category = "network"
    summary = "several nodes with EFA, and nobody asks for it"
    evidence = "verified"
    source = (
        "the EFA device plugin gives devices only to containers that request them; Karpenter attaches EFA "
        "interfaces only for such pods; aws-neuron-sdk: EFA is required between trn1 nodes"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Multi-node groups on RDMA-capable machines."""
        group = subject.group
        kinds = [kind for _, kind in types(subject.job, group, project)]
        # A Ray cluster may also serve: whole machines in it are for work that spans them, which is worth a note.
        cluster = (
            subject.job.frontend == "RayCluster"
            and (group.count.known or 0) > 1
            and any(kind.count > 1 and group.accelerators.known == kind.count for kind in kinds)
        )
        if (
            not kinds
            or group.role != "worker"
            or not (cluster or (subject.job.ends and spans_nodes(subject.job)))
            or stage_of_its_own(group)
            or any(kind.rdma is not True or not kind.efa for kind in kinds)
        ):
            return
        for container in group.accelerated:
            if (
                not isinstance(container.request(EFA), Absent)
                or container.node.get("securityContext", "privileged").boolean
                or container.asked("limits").open
                or container.asked("claims").exists
            ):
                continue
            if any(
                (variable.value.known or "").lower() == "efa"
                for variable in settings(subject.job, group, "FI_PROVIDER")
            ):
                continue
            neuron = all(kind.is_neuron for kind in kinds)
            yield self.hit(
                container.asked("limits"),
                f"the {'cluster' if cluster else 'job'} spans nodes of type {kinds[0].name} with {kinds[0].efa} "
                "EFA interfaces each, and asks for none: "
                + (
                    "NeuronCores of different nodes cannot reach each other"
                    if neuron
                    else "NCCL uses TCP, at a small part of the bandwidth"
                ),
                f"vpc.amazonaws.com/efa: {min(kind.efa for kind in kinds)} in limits",
                severity="note" if cluster else "error" if neuron else None,
            )
