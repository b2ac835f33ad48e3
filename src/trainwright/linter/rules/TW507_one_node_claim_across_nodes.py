"""TW507: pods on several nodes share a claim that one node may mount."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.machines import types
from trainwright.linter.view.pods import PodGroup
from trainwright.linter.view.storage import BLOCK_DRIVERS, backing, named_as_block


class OneNodeClaimAcrossNodes(PodRule):
    """ReadWriteOnce is once per node; ReadWriteOncePod is once."""

    id = "TW507"
    severity = "warning"
    category = "lifecycle"
    summary = "pods on several nodes share a ReadWriteOnce claim"
    evidence = "verified"
    source = (
        "Kubernetes documentation, access modes: ReadWriteOnce is mounted by one node, ReadWriteOncePod by one pod"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Claims of groups with more than one pod, and of several groups of one job."""
        job, group = subject.job, subject.group
        if job.object is None or job.frontend in ("StatefulSet", "NodeSet"):
            return
        for volume in group.volumes.values():
            name = volume.claim
            if name is None:
                continue
            users = [g for g in job.groups if any(v.claim == name for v in g.volumes.values())]
            counts = [g.count.known for g in users]
            if any(count is None for count in counts) or users[0] is not group:
                continue
            pods = sum(count for count in counts if count is not None)
            found = backing(volume, job, project)
            modes = {mode.string for mode in found.access_modes}
            if pods < 2 or not modes or not modes <= {"ReadWriteOnce", "ReadWriteOncePod"}:
                continue
            if modes == {"ReadWriteOncePod"}:
                yield self.hit(
                    volume.source.get("claimName"),
                    f"{pods} pods mount the claim {name!r}, which is ReadWriteOncePod: the second pod is "
                    "never scheduled",
                    "a ReadWriteMany claim (FSx for Lustre, EFS)",
                    "error",
                )
                continue
            block = found.driver in BLOCK_DRIVERS or (not found.driver and named_as_block(found))
            apart = self._apart(job, users, project)
            yield self.hit(
                volume.source.get("claimName"),
                f"{pods} pods mount the claim {name!r}, which is ReadWriteOnce: pods on a second node wait "
                "for ever in "
                "ContainerCreating (Multi-Attach error), while the others hold their accelerators",
                "a ReadWriteMany claim on a shared file system (FSx for Lustre, EFS)",
                "error" if block and apart else "warning",
            )

    def _apart(self, job: TrainingJob, users: list[PodGroup], project: Project) -> bool:
        """Whether the pods certainly need several nodes: each takes all accelerators of the only type allowed."""
        for group in users:
            allowed = types(job, group, project)
            count = group.accelerators.known
            if not allowed or count is None or any(count * 2 <= known.count for _, known in allowed):
                return False
        return True
