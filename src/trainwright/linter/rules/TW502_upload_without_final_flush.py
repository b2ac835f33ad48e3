"""TW502: what the uploader has not copied yet is lost when the pod stops."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.values import Absent
from trainwright.linter.view.saving import shell_script, transfers, trap_of


class UploadWithoutFinalFlush(PodRule):
    """A loop that copies now and then, and just dies on SIGTERM."""

    id = "TW502"
    severity = "warning"
    category = "lifecycle"
    summary = "the uploader copies checkpoints now and then, but not once more when the pod stops"
    evidence = "reported"
    source = (
        "decocms/studio#3128; petuum/adaptdl#70; Kubernetes pod termination: SIGTERM, then SIGKILL after the "
        "grace period"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Loops that copy from a volume that dies with the pod."""
        group = subject.group
        if not group.accelerated:
            return
        for container in group.containers:
            script = shell_script(container)
            if script is None or container.accelerator is not None:
                continue
            for transfer in transfers(container):
                mount = container.mount_of(transfer.source.expanded)
                temporary = mount is not None and mount.volume is not None and mount.volume.kind == "emptyDir"
                if not transfer.uploads or "loop" not in transfer.command.context or not temporary:
                    continue
                if trap_of(script.commands, "TERM", "EXIT") or container.node.get("lifecycle", "preStop").exists:
                    continue
                pause = next(
                    (c.words[1].number.known for c in script.commands if c.name == "sleep" and len(c.words) > 1), None
                )
                lost = f"up to {pause} seconds of work" if pause else "what came since the last copy"
                grace = group.grace_seconds
                short = " (and the pod has only the default 30 s to end)" if isinstance(grace, Absent) else ""
                yield self.hit(
                    transfer.source,
                    f"{container.name!r} copies {transfer.source.expanded}, which is an emptyDir, in a loop "
                    "and dies on "
                    f"SIGTERM without copying once more: {lost} and a checkpoint caught half-written are lost with "
                    f"the pod{short}",
                    "trap 'aws s3 sync …; exit 0' TERM in the loop's script (with sleep … & wait), and "
                    "terminationGracePeriodSeconds above the time of one upload; bound the emptyDir with sizeLimit",
                )
                break
