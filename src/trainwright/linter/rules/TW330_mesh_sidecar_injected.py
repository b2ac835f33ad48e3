"""TW330: a service mesh is injected into training pods."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)


class MeshSidecarInjected(PodRule):
    """The mesh reads the pod's own annotation or label."""

    id = "TW330"
    severity = "error"
    category = "network"
    summary = "a service mesh is injected into training pods"
    evidence = "reported"
    source = (
        "kubeflow/trainer#1637, kubeflow/pytorch-operator#258: the opt-out must be on the pod template; "
        "Istio: injection is decided per pod"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Pod templates without the opt-out."""
        namespace = project.find(subject.job.document, "Namespace", subject.job.get("metadata", "namespace").string)
        if namespace is None or not subject.job.ends or not subject.group.accelerated:
            return
        labels, annotations = namespace.get("metadata", "labels"), namespace.get("metadata", "annotations")
        mesh = (
            "Istio"
            if labels.get("istio-injection").string == "enabled" or labels.get("istio.io/rev").exists
            else "Linkerd"
            if annotations.get("linkerd.io/inject").string == "enabled"
            else ""
        )
        name = "sidecar.istio.io/inject" if mesh == "Istio" else "linkerd.io/inject"
        group = subject.group
        if (
            not mesh
            or any(node.exists or node.unknown for node in (group.annotation(name), group.label(name)))
            or group.metadata.open
            or group.template.open
        ):
            return
        misplaced = subject.job.get("metadata", "annotations", name)
        if not misplaced.exists:
            misplaced = subject.job.get("metadata", "labels", name)
        value = '"false"' if mesh == "Istio" else "disabled"
        yield self.hit(
            misplaced if misplaced.exists else group,
            f"{mesh} injects its proxy into these pods"
            + (
                f": {name} stands on the job, and operators do not copy it to the pods"
                if misplaced.exists
                else f" (namespace {namespace.object_name})"
            )
            + "; the ranks' connections go through the proxy and hang, and the proxy keeps the job from "
            "completing",
            f"{name}: {value} in the metadata of every pod template",
            severity=None if misplaced.exists or subject.job.multi_node else "warning",
        )
