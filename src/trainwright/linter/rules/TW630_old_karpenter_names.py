"""TW630: annotations and labels of Karpenter before v1 on pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_EVICT = "karpenter.sh/do-not-evict"
_PROVISIONER = "karpenter.sh/provisioner-name"


class OldKarpenterNames(PodRule):
    """Names changed with v1beta1, and v1 reads the new ones only."""

    id = "TW630"
    severity = "warning"
    category = "scheduling"
    summary = "pods use Karpenter's names from before v1"
    evidence = "verified"
    source = (
        "aws/karpenter-provider-aws upgrade guide: do-not-evict became do-not-disrupt, and the label "
        "karpenter.sh/provisioner-name is no longer supported in node selectors (karpenter.sh/nodepool)"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """The annotation on pods, and the label in what selects nodes."""
        group = subject.group
        annotation = group.annotation(_EVICT)
        if annotation.exists and group.annotation("karpenter.sh/do-not-disrupt").absent:
            yield self.hit(
                annotation,
                f"Karpenter no longer reads {_EVICT}: it consolidates and drifts these nodes as if nothing were "
                "written, and the pods are evicted in the middle of training",
                'karpenter.sh/do-not-disrupt: "true"',
            )
        for place in _selecting(group.spec):
            yield self.hit(
                place,
                f"nodes have no label {_PROVISIONER} any more: no node matches, none is launched, and the pods stay "
                "Pending",
                "karpenter.sh/nodepool with the name of the NodePool",
                severity="error",
            )


def _selecting(spec: Node) -> Iterator[Node]:
    chosen = spec.get("nodeSelector", _PROVISIONER)
    if chosen.exists:
        yield chosen
    required = spec.get("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for term in required.get("nodeSelectorTerms").elements():
        for expression in term.get("matchExpressions").elements():
            if expression.get("key").string == _PROVISIONER and expression.get("operator").string in ("In", "Exists"):
                yield expression.get("key")
