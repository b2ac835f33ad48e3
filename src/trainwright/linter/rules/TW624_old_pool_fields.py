"""TW624: fields of an older Karpenter API under karpenter.sh/v1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized", "Balanced")


class OldPoolFields(ObjectRule):
    """The v1 API moved and renamed what v1beta1 had."""

    id = "TW624"
    severity = "error"
    category = "scheduling"
    summary = "a NodePool of karpenter.sh/v1 uses fields or values of v1beta1"
    evidence = "verified"
    source = (
        "sigs.k8s.io/karpenter@v1.14.3 pkg/apis/crds/karpenter.sh_nodepools.yaml: enum of consolidationPolicy; "
        "expireAfter (default 720h) under spec.template.spec only"
    )
    kinds: ClassVar[tuple[str, ...]] = ("NodePool",)
    groups: ClassVar[tuple[str, ...]] = ("karpenter.sh",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """The disruption block."""
        disruption = subject.get("spec", "disruption")
        policy, expire = disruption.get("consolidationPolicy"), disruption.get("expireAfter")
        if subject.version != "v1" or disruption.open:
            return
        if policy.string is not None and policy.string not in _POLICIES and "|" not in policy.string:
            yield self.hit(
                policy,
                f"karpenter.sh/v1 has no consolidationPolicy {policy.raw}: the API server refuses the NodePool",
                "WhenEmpty for training pools, or WhenEmptyOrUnderutilized",
            )
        if expire.exists:
            yield self.hit(
                expire,
                "expireAfter moved: under disruption it is no field of karpenter.sh/v1, so it is refused, or "
                "dropped and "
                "nodes expire after 720h",
                f"spec.template.spec.expireAfter: {expire.raw}",
            )
