"""TW412: a data set or checkpoint on a memory-backed volume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.saving import savings


class DataInMemoryVolume(PodRule):
    """Files in a tmpfs are the container's memory."""

    id = "TW412"
    severity = "warning"
    category = "memory"
    summary = "caches or checkpoints are written to a memory-backed volume"
    evidence = "verified"
    source = "Kubernetes documentation, emptyDir: files in a memory-backed volume count as the container's memory"
    _caches: ClassVar[tuple[str, ...]] = (
        "HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE", "TRANSFORMERS_CACHE", "TORCH_HOME", "TMPDIR", "WANDB_DIR",
    )  # fmt: skip

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Cache variables and checkpoint folders of accelerated containers."""
        for container in subject.group.accelerated:
            for name in self._caches:
                variable = container.env.get(name)
                path = variable.value.known if variable is not None else None
                mount = container.mount_of(path) if path and path.startswith("/") else None
                if variable is not None and mount is not None and mount.volume is not None and mount.volume.in_memory:
                    yield self.hit(
                        variable,
                        f"{name} points into {mount.path}, which is memory: every file there counts against the "
                        "container's memory limit until the pod ends, and the container is OOM-killed when "
                        "it is used up",
                        "a folder on a disk or a claim",
                    )
        for saving in savings(subject.job):
            volume = saving.mount.volume if saving.mount is not None else None
            if saving.launch.group is subject.group and volume is not None and volume.in_memory:
                yield self.hit(
                    saving.path,
                    f"checkpoints go to {saving.path.value}, which is memory: they count against the "
                    "container's memory "
                    "limit and vanish with the pod",
                    "a folder on a claim that outlives the pod",
                )
