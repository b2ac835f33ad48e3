"""TW732: a container that names no image."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.fields import is_fragment

_NATIVE = ("Pod", "Job", "CronJob", "Deployment", "DaemonSet", "StatefulSet", "ReplicaSet")


class ContainerWithoutImage(PodRule):
    """The API server refuses such a pod."""

    id = "TW732"
    severity = "warning"
    category = "operators"
    summary = "a container without an image"
    evidence = "verified"
    source = "k8s.io/kubernetes@v1.36.3 pkg/apis/core/validation/validation.go: image is Required for every container"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers of whole objects of Kubernetes itself."""
        document = subject.job.object
        if document is None or subject.job.frontend not in _NATIVE or is_fragment(document, project):
            return
        if document.holder is not None or document.templated:
            return
        for container in subject.group.containers:
            if container.image.absent and not container.node.open and container.name:
                yield self.hit(
                    container,
                    f"container {container.name!r} has no image: the API server refuses the {subject.job.frontend}",
                    "image: <registry>/<name>:<version>",
                )
