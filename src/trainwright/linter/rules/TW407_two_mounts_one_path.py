"""TW407: two volumes are mounted on one path."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.pods import Mount


class TwoMountsOnePath(PodRule):
    """mountPath must be unique in a container."""

    id = "TW407"
    severity = "error"
    category = "memory"
    summary = "two volumes are mounted on the same path of one container"
    evidence = "verified"
    source = "k8s.io/kubernetes@v1.36.3 pkg/apis/core/validation/validation.go, ValidateVolumeMounts: must be unique"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Repeated mount paths."""
        for container in subject.group.containers:
            first: dict[str, Mount] = {}
            for mount in container.mounts:
                written = mount.node.get("mountPath").string or ""
                if not written or mount.node.get("mountPath").unknown or mount.node.open:
                    continue
                if written in first:
                    yield self.hit(
                        mount,
                        f"{written} is mounted twice in {container.name!r} (volumes "
                        f"{first[written].node.get('name').raw!r} and {mount.node.get('name').raw!r}): the "
                        "API server "
                        "refuses the pod (must be unique)",
                        "one mount per path",
                    )
                else:
                    first[written] = mount
