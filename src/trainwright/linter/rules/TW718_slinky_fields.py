"""TW718: v1beta1 names things differently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule

_ALL = ("Controller", "NodeSet", "LoginSet", "Accounting", "RestApi")
_MOVED: dict[str, tuple[tuple[str, ...], str]] = {
    "clusterRef": (("NodeSet", "LoginSet", "RestApi"), "controllerRef: {name: …}"),
    "nodeCount": (("NodeSet",), "replicas"),
    "nodeTemplate": (("NodeSet",), "template.spec (nodeSelector, volumes), slurmd.resources and extraConf"),
    "autoscaling": (("NodeSet",), "a KEDA ScaledObject whose scaleTargetRef is the NodeSet"),
    "placement": (("NodeSet",), "placementGroupSelector of the EC2NodeClass"),
    "controller": (("Controller",), "slurmctld (container) and template, directly under spec"),
    "database": (("Controller",), "an Accounting object, and accountingRef"),
    "restApi": (("Controller",), "a RestApi object"),
    "sharedStorage": (("Controller",), "volumes in template.spec of each NodeSet and LoginSet"),
    "compute": (("Controller",), "NodeSet objects"),
}


class SlinkyFields(ObjectRule):
    """Slinky's v1beta1 has its own fields."""

    id = "TW718"
    severity = "error"
    category = "operators"
    summary = "fields of an older or imagined Slinky API"
    evidence = "verified"
    source = "slurm-operator v1.0.0 config/crd/bases and internal/webhook; api/v1beta1 types"
    kinds: ClassVar[tuple[str, ...]] = ("Controller", "NodeSet", "LoginSet", "Accounting", "RestApi")
    groups: ClassVar[tuple[str, ...]] = ("slinky.slurm.net",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Old names, and the form of extraConf."""
        if subject.version != "v1beta1":
            return
        spec = subject.get("spec")
        for name, (kinds, instead) in _MOVED.items():
            node = spec.get(name)
            if subject.kind in kinds and node.exists and node.key is not None:
                yield self.hit(
                    node.key,
                    f"a {subject.kind} of v1beta1 has no {name}: the API server refuses or drops it",
                    instead,
                )
        if subject.kind != "NodeSet":
            return
        partition = spec.get("partition")
        if partition.type == "str":
            yield self.hit(
                partition,
                "partition is a section, not a name: the API server refuses the NodeSet (the partition is "
                "named after the NodeSet)",
                'partition: {enabled: true, config: "State=UP MaxTime=UNLIMITED"}',
            )
        extra = spec.get("extraConf")
        for word in (extra.string or "").split():
            if "=" not in word and not extra.unknown:
                yield self.hit(
                    extra,
                    f"extraConf holds words of the form Key=Value, and {word!r} has no =: Slurm cannot read "
                    f"the node's line",
                    'e.g. "Gres=gpu:a100:8 Features=a100,efa"',
                )
                break
