"""TW231: a device plugin does not tolerate the taint of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts import node_types
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    ObjectRule,
)
from trainwright.linter.view.machines import pool_requirement


def _has(pool: KubernetesObject, kind: str) -> bool:
    """Whether a pool's machines have the device, as far as its requirements say."""
    names = pool_requirement(pool, "node.kubernetes.io/instance-type")
    found = [known for name in names or () for known in [node_types.get(name.value)] if known is not None]
    if not found:
        families = [value.value for value in pool_requirement(pool, "karpenter.k8s.aws/instance-family") or ()]
        return any(family.startswith(("trn", "inf") if kind == "neuron" else ("p", "g")) for family in families)
    if kind == "efa":
        return any(known.efa for known in found)
    return any(known.is_neuron == (kind == "neuron") for known in found)


class DevicePluginNotTolerating(ObjectRule):
    """No plugin, no devices."""

    id = "TW231"
    severity = "error"
    category = "accelerators"
    summary = "a device plugin does not tolerate the taint of its nodes"
    evidence = "verified"
    source = (
        "Kubernetes: a DaemonSet pod is not scheduled on nodes with taints it does not tolerate; without "
        "the plugin the node advertises no device"
    )
    kinds: ClassVar[tuple[str, ...]] = ("DaemonSet",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Plugins and the taints of the pools beside them."""
        spec = subject.get("spec", "template", "spec")
        images = " ".join(c.get("image").string or "" for c in spec.get("containers").elements())
        kind = (
            "neuron"
            if "neuron-device-plugin" in images
            else "efa"
            if "aws-efa-k8s-device-plugin" in images
            else "gpu"
            if "nvidia/k8s-device-plugin" in images or "nvidia-device-plugin" in images
            else ""
        )
        job = next((j for j in project.jobs if j.object is subject), None)
        if not kind or job is None or not job.groups:
            return
        for pool in project.related(subject, "NodePool"):
            if not _has(pool, kind):
                continue
            for taint in pool.get("spec", "template", "spec", "taints").elements():
                key, effect = taint.get("key").string, taint.get("effect").string
                if (
                    key
                    and effect in ("NoSchedule", "NoExecute")
                    and not job.groups[0].tolerates(key, effect, taint.get("value").string)
                ):
                    yield self.hit(
                        spec.get("tolerations"),
                        f"the plugin does not tolerate {key}:{effect} of NodePool {pool.object_name}: "
                        "it never runs there, and those nodes advertise no devices",
                        "tolerations: [{operator: Exists}]",
                    )
                    return
