"""TW311: the exclusion list misses interfaces of an EKS host."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts import node_types
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.network import covers, interfaces, settings, uses_efa


class HostInterfaceListIncomplete(PodRule):
    """On the host there are more interfaces than cards."""

    id = "TW311"
    severity = "warning"
    category = "network"
    summary = "the exclusion list misses interfaces of an EKS host"
    evidence = "reported"
    source = "EKS hosts carry eni* veth pairs and pod-id-link0 (169.254.170.23); aws-samples/aws-do-eks#54"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Exclusions in pods on the host's network."""
        group = subject.group
        if not group.host_network or not (
            uses_efa(subject.job) or any(node_types.get(name.value) for name in group.instance_types)
        ):
            return
        for variable in settings(subject.job, group, "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
            value = variable.value.known
            excludes, exact, entries = interfaces(value or "")
            missing = [
                name
                for name, example in (("eni", "eni0123456789a"), ("pod-id-link0", "pod-id-link0"))
                if not covers(entries, example, exact=exact)
            ]
            if excludes and missing:
                yield self.hit(
                    variable,
                    f"with host network the pod sees the host's interfaces, and {value} leaves in "
                    f"{' and '.join(missing)}: NCCL may choose one whose address is the same on every "
                    "node, and hang",
                    f"{value},{','.join(missing)}; or the name of the card (ens…)",
                )
