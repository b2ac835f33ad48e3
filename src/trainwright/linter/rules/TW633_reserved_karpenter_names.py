"""TW633: tags and labels that Karpenter keeps for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_TAGS = ("eks:eks-cluster-name", "karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass")
_LABELS = ("karpenter.sh/capacity-type",)
"""What may stand among a pool's labels although its domain is reserved."""


class ReservedKarpenterNames(ObjectRule):
    """The CRDs refuse them."""

    id = "TW633"
    severity = "error"
    category = "scheduling"
    summary = "a tag or label that Karpenter sets itself and refuses from others"
    evidence = "verified"
    source = (
        "aws/karpenter-provider-aws v1.14 pkg/apis/crds: tag contains a restricted tag matching …; label domain "
        "karpenter.sh is restricted; label kubernetes.io/hostname is restricted"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodePool", "EC2NodeClass")

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Tags of node classes, labels of pools."""
        if subject.kind == "EC2NodeClass":
            for key, _ in subject.get("spec", "tags").pairs():
                if not key.unknown and (key.raw in _TAGS or key.raw.startswith("kubernetes.io/cluster/")):
                    yield self.hit(
                        key,
                        f"Karpenter sets the tag {key.raw} itself: the API server refuses an EC2NodeClass with it",
                        "no such tag, or one of your own name",
                    )
        else:
            for key, _ in subject.get("spec", "template", "metadata", "labels").pairs():
                domain = key.raw.rpartition("/")[0]
                ours = domain == "karpenter.sh" or domain.endswith(".karpenter.sh")
                if not key.unknown and key.raw not in _LABELS and (ours or key.raw == "kubernetes.io/hostname"):
                    yield self.hit(
                        key,
                        f"the label {key.raw} is Karpenter's own: the API server refuses a NodePool that sets it",
                        "a label of your own domain, for example example.com/pool",
                    )
