"""TW617: nodes with Amazon Linux 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.nodepools import pool_types, pools_of


class ImageFamilyEnded(ObjectRule):
    """The last AL2 AMIs are for Kubernetes 1.32."""

    id = "TW617"
    severity = "warning"
    category = "scheduling"
    summary = "Amazon Linux 2 has no EKS AMI from Kubernetes 1.33 on"
    evidence = "verified"
    source = (
        "Karpenter v1.14 NodeClass documentation (1.32 is the last version with AL2 AMIs); amazon-eks-ami b2289030"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """amiFamily and aliases."""
        spec = subject.get("spec")
        family = spec.get("amiFamily")
        alias = next((t.get("alias") for t in spec.get("amiSelectorTerms").elements() if t.get("alias").exists), None)
        where = family if family.string == "AL2" else None
        if alias is not None and alias.raw.split("@")[0] == "al2":
            where = alias
        if where is None:
            return
        newer = project.versions.at_least("kubernetes", "1.33")
        if newer is False:
            return
        neuron = any(known.is_neuron for pool in pools_of(subject, project) for _, known in pool_types(pool))
        yield self.hit(
            where,
            "there is no Amazon Linux 2 AMI for Kubernetes 1.33 and later, so no node is started there"
            + (", and the Neuron runtime does not support it since SDK 2.20" if neuron else ""),
            "amiSelectorTerms: [{alias: al2023@v20250610}]",
            "error" if newer and where is alias else "warning",
        )
