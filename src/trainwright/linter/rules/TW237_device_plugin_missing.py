"""TW237: files that set a cluster's device plugins up, and lack one."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.view.nodepools import pool_types
from trainwright.linter.view.pods import NEURON_RESOURCES

_NEURON = ("neuron-device-plugin", "neuron-scheduler", "neuron-helm-chart", "neuron_device_plugin")
_PLUGINS = ("k8s-device-plugin", "device-plugin")


class DevicePluginMissing(ProjectRule):
    """A resource exists when a plugin on the node advertises it."""

    id = "TW237"
    severity = "note"
    category = "accelerators"
    summary = "device plugins are installed here, and the one for Neuron is not among them"
    evidence = "verified"
    source = (
        "aws-neuron-sdk, Kubernetes getting started: the Neuron device plugin advertises aws.amazon.com/neuron and "
        "neuroncore; Karpenter and EKS do not bring it along"
    )

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Node pools of Trainium beside some device plugin but none for Neuron."""
        pools = [
            (pool, name)
            for pool in project.objects("NodePool")
            for name, kind in pool_types(pool)
            if kind.resource == "aws.amazon.com/neuron"
        ]
        if not pools:
            return
        sets = [o for o in project.objects("DaemonSet") if any(word in o.text.content for word in _PLUGINS)]
        if not sets or any(word in file.text.content for file in project.files for word in _NEURON):
            return
        wanting = [job for job in project.jobs if job.accelerator in NEURON_RESOURCES]
        if not wanting:
            return
        name = pools[0][1]
        yield self.hit(
            name,
            f"pods here ask for {wanting[0].accelerator}, which only the Neuron device plugin advertises; these "
            "files "
            f"install {sets[0].object_name or 'another plugin'} and not that one: unless it comes from elsewhere, "
            "the pods stay Pending beside free nodes",
            "helm install neuron oci://public.ecr.aws/neuron/neuron-helm-chart",
        )
