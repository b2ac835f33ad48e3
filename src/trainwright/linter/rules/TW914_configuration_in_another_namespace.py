"""TW914: a ConfigMap or Secret that a pod uses is in another namespace."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.pods import PodGroup


class ConfigurationInAnotherNamespace(PodRule):
    """Pods see the ConfigMaps and Secrets of their own namespace only."""

    id = "TW914"
    severity = "warning"
    category = "storage"
    summary = "the ConfigMap or Secret that a pod uses exists only in another namespace"
    evidence = "verified"
    source = "Kubernetes documentation, ConfigMaps: the pod and the ConfigMap must be in the same namespace"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Objects of that name in the same set of files."""
        document = subject.job.object
        if document is None or document.metadata.get("namespace").unknown:
            return
        seen: set[str] = set()
        for kind, node in _used(subject.group):
            name = node.string
            same = [o for o in project.related(document, kind) if name and o.object_name == name]
            spaces = {o.namespace or "default" for o in same}
            mine = document.namespace or "default"
            if not same or mine in spaces or name in seen or any(o.metadata.get("namespace").unknown for o in same):
                continue
            seen.add(name or "")
            explicit = document.namespace is not None and all(o.namespace is not None for o in same)
            yield self.hit(
                node,
                f"{kind} {name!r} is in namespace {', '.join(sorted(spaces))}, and the pod looks for it in "
                f"{mine}: it stays in ContainerCreating",
                f"namespace: {sorted(spaces)[0]} for the {document.kind}, or a copy of the {kind} in {mine}",
                severity=None if explicit else "note",
            )


def _used(group: PodGroup) -> Iterator[tuple[str, Node]]:
    """Names of ConfigMaps and Secrets that volumes and environments need."""
    for volume in group.volumes.values():
        if volume.kind == "configMap" and not volume.source.get("optional").boolean:
            yield "ConfigMap", volume.source.get("name")
        elif volume.kind == "secret" and not volume.source.get("optional").boolean:
            yield "Secret", volume.source.get("secretName")
    for container in group.containers:
        for entry in container.node.get("envFrom").elements():
            yield "ConfigMap", entry.get("configMapRef", "name")
            yield "Secret", entry.get("secretRef", "name")
