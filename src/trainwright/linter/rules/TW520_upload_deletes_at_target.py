"""TW520: a new pod with an empty folder deletes what was uploaded."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.saving import transfers


class UploadDeletesAtTarget(PodRule):
    """A mirror of nothing is nothing."""

    id = "TW520"
    severity = "warning"
    category = "lifecycle"
    summary = "the uploader mirrors a folder that is empty in a new pod, deletions included"
    evidence = "verified"
    source = "aws s3 sync --delete and rclone sync remove files that the source lacks; emptyDir begins empty"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Uploads of folders that die with the pod."""
        if not subject.job.ends:
            return
        for container in subject.group.containers:
            for transfer in transfers(container):
                if not transfer.uploads or not transfer.mirrors:
                    continue
                mount = container.mount_of(transfer.source.expanded)
                if mount is not None and mount.volume is not None and mount.volume.kind != "emptyDir":
                    continue
                if any(
                    other.downloads
                    for init in subject.group.containers
                    if init.init and not init.sidecar
                    for other in transfers(init)
                ):
                    continue
                yield self.hit(
                    transfer.command,
                    f"{transfer.source.expanded} is empty when a pod starts, and this command makes "
                    f"{transfer.target.expanded} equal to it: after a retry the first upload deletes every earlier "
                    "checkpoint",
                    "no --delete (rclone copy), and pruning on the side of the bucket; or download before training",
                )
