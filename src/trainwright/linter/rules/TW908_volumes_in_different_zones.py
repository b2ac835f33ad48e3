"""TW908: one pod mounts volumes of different zones."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.pods import Volume
from trainwright.linter.view.storage import ZONE_LABELS, backing, zones


class VolumesInDifferentZones(PodRule):
    """A node is in one zone."""

    id = "TW908"
    severity = "error"
    category = "storage"
    summary = "the volumes of one pod, or the pod itself, are bound to different zones"
    evidence = "verified"
    source = "Kubernetes: node affinity of persistent volumes; awslabs/kubeflow-manifests#711; kubeflow/kubeflow#7109"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Zones of all claims of a pod, and of its own selectors."""
        group = subject.group
        bound: list[tuple[Volume, set[str]]] = []
        for volume in group.volumes.values():
            allowed = zones(backing(volume, subject.job, project).volume)
            if allowed:
                bound.append((volume, allowed))
        for number, (volume, allowed) in enumerate(bound):
            for other, theirs in bound[:number]:
                if not allowed & theirs:
                    yield self.hit(
                        volume.source.get("claimName"),
                        f"claim {volume.claim!r} is in {', '.join(sorted(allowed))} and claim {other.claim!r} in "
                        f"{', '.join(sorted(theirs))}: no node can mount both, so the pod stays Pending",
                        "both volumes in one zone (restore one from a snapshot), or a regional file system "
                        "(EFS, FSx)",
                    )
                    return
            chosen = [value for label in ZONE_LABELS for value in group.selected(label)]
            named = {value.value for value in chosen}
            if named and not named & allowed and {z[:3] for z in named} == {z[:3] for z in allowed}:
                yield self.hit(
                    chosen[0],
                    f"the pods must run in {', '.join(sorted(named))}, and their claim {volume.claim!r} is in "
                    f"{', '.join(sorted(allowed))}: they stay Pending",
                    f"topology.kubernetes.io/zone: {sorted(allowed)[0]}",
                )
                return
