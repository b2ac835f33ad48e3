"""TW506: checkpoints are saved through an object-store mount."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.storage import OBJECT_DRIVERS, backing, driver_of


class ObjectStoreAsCheckpointFolder(LaunchRule):
    """An object store behind a mount has no rename, no rewrite, no append."""

    id = "TW506"
    severity = "warning"
    category = "lifecycle"
    summary = "the checkpoint folder is a mount of an object store"
    evidence = "reported"
    source = (
        "Mountpoint for Amazon S3, semantics: no rename in general purpose buckets, no overwrite or delete unless "
        "allowed; safetensors/safetensors#792; awslabs/mountpoint-s3#506, #863"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The driver behind the checkpoint folder."""
        path, container = subject.checkpoint_path, subject.container
        if path is None or container is None or not path.value.startswith("/"):
            return
        mount = container.mount_of(path.value)
        if mount is None or mount.volume is None:
            return
        driver = driver_of(mount.volume, subject.job, project)
        if driver not in OBJECT_DRIVERS:
            return
        options = backing(mount.volume, subject.job, project).mount_options
        missing = (
            [option for option in ("allow-delete", "allow-overwrite") if option not in options]
            if options is not None and driver == "s3.csi.aws.com"
            else []
        )
        why = (
            f"{path.value} is a bucket mounted by {driver}: files there can be written once, from start to "
            "end, and not "
            "renamed, so trainers that write a temporary file and rename it, or rewrite a file, stop with an "
            "I/O error"
        )
        if missing:
            why += f"; without {' and '.join(missing)} old checkpoints cannot be replaced or pruned either"
        yield self.hit(
            path,
            why,
            "save to FSx for Lustre, EFS or a local disk and upload from there, or use a writer that speaks "
            "the store's "
            "own API" + (f"; at least mountOptions: [{', '.join(missing)}]" if missing else ""),
        )
