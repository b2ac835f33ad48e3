"""TW723: some kinds live outside namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule


class NamespaceOnClusterKind(ObjectRule):
    """Cluster-scoped objects have no namespace."""

    id = "TW723"
    severity = "warning"
    category = "operators"
    summary = "a namespace on an object that has none"
    evidence = "verified"
    source = "scope of the CRDs of Kueue 0.17, Karpenter 1.13, Volcano 1.14, Trainer 2.2; Kubernetes 1.36 OpenAPI"
    kinds: ClassVar[tuple[str, ...]] = (
        "Queue",
        "ClusterQueue",
        "ResourceFlavor",
        "Cohort",
        "AdmissionCheck",
        "Topology",
        "WorkloadPriorityClass",
        "NodePool",
        "EC2NodeClass",
        "NodeClaim",
        "NodeOverlay",
        "ClusterTrainingRuntime",
        "PriorityClass",
        "StorageClass",
        "PersistentVolume",
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "Node",
        "CustomResourceDefinition",
    )

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Namespaces that mean nothing."""
        if subject.kind == "Queue" and subject.group != "scheduling.volcano.sh":
            return
        if subject.kind in ("Topology", "Cohort") and subject.group != "kueue.x-k8s.io":
            return
        node = subject.metadata.get("namespace")
        if node.exists:
            yield self.hit(
                node,
                f"a {subject.kind} belongs to the whole cluster: the namespace has no effect, and the name "
                f"is shared with everybody",
                "no metadata.namespace",
                severity="note" if subject.kind.startswith("ClusterRole") else None,
            )
