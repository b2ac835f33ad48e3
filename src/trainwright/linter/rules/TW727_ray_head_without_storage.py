"""TW727: the head of a Ray cluster does not mount what its workers save to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import Mount, PodGroup
from trainwright.linter.view.python import calls_of, literal


class RayHeadWithoutStorage(JobRule):
    """Ray Train checks its storage path on the head and on every worker."""

    id = "TW727"
    severity = "warning"
    category = "operators"
    summary = "Ray Train saves to a path that the head of the cluster does not mount"
    evidence = "verified"
    source = (
        "ray-project/ray python/ray/train/_internal/storage.py: a marker file is written by the driver and read on "
        'every node, else "Unable to set up cluster storage"'
    )
    frontends: ClassVar[tuple[str, ...]] = ("RayCluster", "RayJob")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """``storage_path`` of programs in sight against the mounts of head and workers."""
        head = next((group for group in subject.groups if group.role == "head"), None)
        workers = [group for group in subject.groups if group.role == "worker"]
        if head is None or not workers or head.spec.open or not head.main_containers:
            return
        for module in project.near(subject.document, project.modules):
            for path in _storage_paths(module):
                shared = [mount for group in workers for mount in _shared(group, path)]
                own = head.main_containers[0].mount_of(path)
                if shared and (own is None or (own.volume is not None and not own.volume.survives)):
                    yield self.hit(
                        head.main_containers[0],
                        f"the workers mount {shared[0].path}, where storage_path={path} points, and the head does "
                        "not: Ray Train writes a marker there on the head, does not find it on the workers, and "
                        'stops with "Unable to set up cluster storage"',
                        f"the same volume mounted at {shared[0].path} in headGroupSpec, or an s3:// storage_path",
                    )
                    return


def _storage_paths(module: PythonDocument) -> Iterator[str]:
    for call in calls_of(module, "ray.train.RunConfig", "ray.air.RunConfig", "ray.air.config.RunConfig"):
        value = literal(call.keyword("storage_path"))
        if isinstance(value, str) and value.startswith("/"):
            yield value


def _shared(group: PodGroup, path: str) -> Iterator[Mount]:
    for container in group.main_containers:
        mount = container.mount_of(path)
        if mount is not None and mount.volume is not None and mount.volume.survives:
            yield mount
