"""TW615: an EC2NodeClass without a role, or with two identities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class NodeClassWithoutIdentity(ObjectRule):
    """Exactly one of role and instanceProfile."""

    id = "TW615"
    severity = "error"
    category = "scheduling"
    summary = "an EC2NodeClass needs exactly one of role and instanceProfile"
    evidence = "verified"
    source = (
        "Karpenter v1.14 CRD ec2nodeclasses.karpenter.k8s.aws: must specify exactly one of ['role', "
        "'instanceProfile']"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Whole node classes (a patch names neither subnets nor security groups)."""
        spec = subject.get("spec")
        role, profile = spec.get("role"), spec.get("instanceProfile")
        if subject.version != "v1" or spec.open or not spec.get("subnetSelectorTerms").exists:
            return
        if role.absent and profile.absent:
            yield self.hit(
                spec,
                "the API server refuses this EC2NodeClass: nodes need an IAM identity to join the cluster, "
                "and neither "
                "role nor instanceProfile is set",
                "role: KarpenterNodeRole-<cluster>",
            )
        elif role.exists and profile.exists:
            yield self.hit(
                profile,
                "the API server refuses this EC2NodeClass: role and instanceProfile exclude one another",
                "one of them; with role Karpenter makes the instance profile itself",
            )
