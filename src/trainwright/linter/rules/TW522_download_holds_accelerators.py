"""TW522: accelerators wait while an init container downloads."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.cost import DEVICES, an_hour_of
from trainwright.linter.view.saving import transfers


class DownloadHoldsAccelerators(PodRule):
    """The node is taken from the first init container on."""

    id = "TW522"
    severity = "note"
    category = "lifecycle"
    summary = "an init container downloads while the pod already holds its accelerators"
    evidence = "verified"
    source = "Kubernetes: resources of all containers are reserved when the pod is placed, before init containers run"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Downloads in init containers of accelerated pods of jobs."""
        group = subject.group
        if not group.accelerated or not subject.job.ends:
            return
        for container in group.containers:
            if not container.init or container.sidecar:
                continue
            for transfer in transfers(container):
                if not transfer.downloads:
                    continue
                mount = container.mount_of(transfer.target.expanded)
                shared = mount is not None and mount.volume is not None and mount.volume.survives
                count = group.count.known or 1
                held = (group.accelerators.known or 0) * count
                cost = an_hour_of(
                    held if group.accelerated[0].accelerator in DEVICES else None, subject.job, group, project
                )
                together = (
                    f", and {count} pods write the same files in {transfer.target.expanded} at once"
                    if shared and count > 1
                    else ""
                )
                yield self.hit(
                    transfer.command,
                    f"the pod holds its accelerators while {container.name!r} copies "
                    f"{transfer.source.expanded}: a model "
                    f"of 140 GB takes minutes in which nothing trains{cost}{together}",
                    "a Job without accelerators that fills the volume once, or a file system linked to the "
                    "bucket (FSx)",
                    "warning" if together else "note",
                )
                break
