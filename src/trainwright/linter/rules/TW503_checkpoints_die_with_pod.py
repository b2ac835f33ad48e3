"""TW503: checkpoints are written where they vanish with the pod."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import mounts_known, resume_flag, transfers

_LOCAL = ("/mnt/k8s-disks", "/tmp", "/local", "/nvme", "/mnt/nvme", "/scratch", "/opt/dlami/nvme", "/opt/sagemaker")


class CheckpointsDieWithPod(LaunchRule):
    """No claim, no shared file system and no uploader."""

    id = "TW503"
    severity = "warning"
    category = "lifecycle"
    summary = "checkpoints are written to a place that vanishes with the pod"
    evidence = "verified"
    source = "Kubernetes documentation: emptyDirs and a container's own file system are deleted with the pod"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The checkpoint folder against the container's mounts."""
        path, container, group = subject.checkpoint_path, subject.container, subject.group
        if path is None or container is None or group is None or "://" in path.value or not subject.job.ends:
            return
        if subject.job.frontend in ("MPIJob", "TrainJob", "RayJob") or not mounts_known(container):
            return
        if any(transfer.uploads for other in group.containers for transfer in transfers(other)):
            return
        if subject.arguments.has("push_to_hub", "hub_model_id", "upload_dir", "s3_bucket"):
            return
        mount = container.mount_of(path.value) if path.value.startswith("/") else None
        if not path.value.startswith("/"):
            if container.mounts and any(m.volume is None or m.volume.survives for m in container.mounts):
                return
            where = "the container's own file system"
        elif mount is None:
            where = "no volume, so in the container's own file system"
        elif mount.volume is None or mount.volume.survives or mount.volume.in_memory:
            return
        elif mount.volume.kind == "hostPath":
            if not (mount.volume.source.get("path").string or "/fsx").startswith(_LOCAL):
                return
            where = f"the disk of whatever node the pod runs on ({mount.volume.source.get('path').raw})"
        elif mount.volume.kind == "emptyDir":
            where = f"the emptyDir {mount.volume.name!r}"
        else:
            return
        resumes = resume_flag(subject.arguments)
        replaced = group.spec.get("restartPolicy").string == "Never" or subject.job.multi_node
        why = f"{path.value} is in {where}: "
        certain = resumes is not None and replaced
        if certain and resumes is not None:
            why += (
                f"the pod that replaces a failed one starts with an empty folder, so {resumes.word.expanded} never "
                "finds anything and training begins again from step 0"
            )
        else:
            why += "every checkpoint is deleted with the pod, also the last one of a run that succeeded"
        if subject.job.multi_node:
            why += "; with several pods, each holds only its own part of a sharded checkpoint"
        yield self.hit(
            path,
            why,
            "a folder on a claim that all pods mount (FSx for Lustre, EFS), or an uploader with a final flush",
            "error"
            if certain and mount is not None and mount.volume is not None and mount.volume.kind == "emptyDir"
            else "warning",
        )
