"""TW329: host network without dnsPolicy: ClusterFirstWithHostNet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.network import spans_nodes

_NAMES = ("PyTorchJob", "TFJob", "JobSet", "VolcanoJob", "MPIJob", "TrainJob")


class HostNetworkWithoutClusterDns(PodRule):
    """The node's resolver does not know the cluster's names."""

    id = "TW329"
    severity = "warning"
    category = "network"
    summary = "host network without dnsPolicy: ClusterFirstWithHostNet"
    evidence = "verified"
    source = (
        "Kubernetes DNS documentation: pods on the host network fall back to the node's resolver unless "
        "dnsPolicy is ClusterFirstWithHostNet"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Host network in jobs that use cluster names."""
        group = subject.group
        policy = group.spec.get("dnsPolicy")
        if (
            not group.host_network
            or policy.unknown
            or policy.string in ("ClusterFirstWithHostNet", "None")
            or group.role != "worker"
            or not subject.job.ends
            or not spans_nodes(subject.job)
        ):
            return
        launches = [launch for launch in subject.job.training_launches if launch.group is group]
        hosts = [meeting.host for launch in launches for meeting in [rendezvous.host(launch)] if meeting is not None]
        if any(host is not None and re.fullmatch(r"[\d.]+", host) for host in hosts) or (
            subject.job.frontend not in _NAMES and not any(host and "." in host for host in hosts)
        ):
            return
        yield self.hit(
            policy if policy.exists else group.spec.get("hostNetwork"),
            "on the host network the pod asks the node's resolver, which does not know the cluster's "
            "Service names: the ranks cannot find the master",
            "dnsPolicy: ClusterFirstWithHostNet",
        )
