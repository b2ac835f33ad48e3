"""TW328: an EFA device plugin that cannot serve the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    ObjectRule,
)
from trainwright.linter.values import version_tuple


class EfaPluginIncomplete(ObjectRule):
    """The plugin must run where the jobs run, with the host's devices."""

    id = "TW328"
    severity = "warning"
    category = "network"
    summary = "an EFA device plugin that cannot serve the nodes"
    evidence = "verified"
    source = (
        "aws/eks-charts stable/aws-efa-k8s-device-plugin (0.5.30 and its history): hostNetwork, "
        "/dev/infiniband since v0.5.1, node affinity over all EFA types"
    )
    kinds: ClassVar[tuple[str, ...]] = ("DaemonSet",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The plugin's pod template."""
        spec = subject.get("spec", "template", "spec")
        containers = [
            c
            for c in spec.get("containers").elements()
            if "aws-efa-k8s-device-plugin" in (c.get("image").string or "")
        ]
        if not containers or spec.open:
            return
        version = version_tuple((containers[0].get("image").string or "").rsplit(":", 1)[-1])
        paths = {mount.get("mountPath").string for mount in containers[0].get("volumeMounts").elements()}
        if version >= (0, 5, 1) and "/dev/infiniband" not in paths:
            yield self.hit(
                containers[0].get("image"),
                "since v0.5.1 the plugin looks for devices below /dev/infiniband, which is not "
                "mounted: it finds none and advertises no EFA",
                "a hostPath volume for /dev/infiniband, or the Helm chart aws-efa-k8s-device-plugin",
                severity="error",
            )
        if (0, 1) <= version < (0, 5, 1):
            yield self.hit(
                containers[0].get("image"),
                "this release is of February 2024 or older: it knows none of the newer EFA types, and raising the "
                "tag alone is not enough, since newer ones look below /dev/infiniband",
                "the Helm chart aws-efa-k8s-device-plugin, which mounts what its release needs",
                severity="note",
            )
        if spec.get("hostNetwork").absent or spec.get("hostNetwork").boolean is False:
            yield self.hit(
                spec.get("containers"),
                "the plugin runs without hostNetwork: every release of the chart uses it, so as to see "
                "the host's interfaces",
                "hostNetwork: true",
            )
        pinned = spec.get("nodeSelector", "node.kubernetes.io/instance-type")
        if pinned.string is not None:
            yield self.hit(
                pinned,
                f"the plugin runs on {pinned.string} only: nodes of every other type never advertise "
                "EFA, and pods that ask for it there stay Pending",
                "the chart's node affinity, which lists all EFA types",
            )
