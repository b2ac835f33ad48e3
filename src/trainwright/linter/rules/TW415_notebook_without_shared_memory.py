"""TW415: a GPU notebook with the container runtime's 64 MiB of /dev/shm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class NotebookWithoutSharedMemory(ConfigRule):
    """Notebooks load data like any training program."""

    id = "TW415"
    severity = "warning"
    category = "memory"
    summary = "GPU notebooks of JupyterHub keep 64 MiB of /dev/shm"
    evidence = "verified"
    source = (
        "zero-to-jupyterhub 4.4 values: singleuser.storage.extraVolumes and extraVolumeMounts; the container "
        "runtime's "
        "default for /dev/shm is 64 MiB; pytorch/pytorch#16979"
    )
    roles: ClassVar[tuple[Role, ...]] = ("helm-values",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Values that give every notebook GPUs, and no volume on /dev/shm."""
        for root in (subject.get("singleuser"), subject.get("jupyterhub", "singleuser")):
            storage = root.get("storage")
            gpus = next((value for key, value in _limits(root) if "gpu" in key), None)
            if gpus is None or (gpus.number is not None and gpus.number < 1) or root.open or storage.open:
                continue
            mounts = storage.get("extraVolumeMounts")
            named = [
                mount.get("mountPath") for mount in (*mounts.elements(), *(value for _, value in mounts.pairs()))
            ]
            if mounts.unknown or mounts.open or any(path.unknown or path.string == "/dev/shm" for path in named):
                continue
            yield self.hit(
                gpus,
                "every notebook gets GPUs, and /dev/shm keeps the container runtime's 64 MiB: DataLoader "
                "workers that "
                "pass batches through it die with a bus error, which users see as a dead kernel",
                "singleuser.storage: {extraVolumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 16Gi}}], "
                "extraVolumeMounts: [{name: shm, mountPath: /dev/shm}]}",
            )


def _limits(root: Node) -> Iterator[tuple[str, Node]]:
    for key, value in root.get("extraResource", "limits").pairs():
        yield key.raw, value
