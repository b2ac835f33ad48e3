"""TW911: checkpoints on a file system without replication."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.storage import backing


class ScratchForCheckpoints(LaunchRule):
    """FSx scratch file systems lose data when a server fails."""

    id = "TW911"
    severity = "note"
    category = "storage"
    summary = "checkpoints are kept on an FSx scratch file system, which is not replicated"
    evidence = "verified"
    source = "FSx for Lustre documentation, deployment types: data on scratch is not replicated"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The class behind the checkpoint folder."""
        path, container = subject.checkpoint_path, subject.container
        mount = container.mount_of(path.value) if path is not None and container is not None else None
        if path is None or mount is None or mount.volume is None:
            return
        found = backing(mount.volume, subject.job, project).storage_class
        if found is None or found.get("provisioner").string != "fsx.csi.aws.com" or found.get("parameters").open:
            return
        kind = found.get("parameters", "deploymentType")
        if kind.absent or (kind.string or "").startswith("SCRATCH"):
            yield self.hit(
                path,
                f"{path.value} is on storage class {found.object_name!r} "
                f"({kind.string or 'SCRATCH_1 by default'}): its "
                "data is not replicated and is lost when a file server fails",
                "deploymentType: PERSISTENT_2, or a copy of finished checkpoints in S3",
            )
