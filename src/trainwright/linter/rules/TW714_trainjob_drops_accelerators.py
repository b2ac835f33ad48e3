"""TW714: resourcesPerNode replaces, it does not add."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob

_ACCELERATOR = re.compile(r"(^|\.)(nvidia|amd|habana)\.(com|ai)/|aws\.amazon\.com/neuron")


class TrainjobDropsAccelerators(JobRule):
    """``trainer.resourcesPerNode`` replaces the runtime container's resources."""

    id = "TW714"
    severity = "error"
    category = "operators"
    summary = "a TrainJob's resources drop the accelerators of its runtime"
    evidence = "verified"
    source = (
        "kubeflow/trainer v2.2 pkg/runtime/framework/plugins/torch/torch.go: resourcesPerNode replaces "
        "the runtime's resources; without a GPU the process count follows the CPUs"
    )
    frontends: ClassVar[tuple[str, ...]] = ("TrainJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Overrides without the runtime's accelerator."""
        override = subject.get("spec", "trainer", "resourcesPerNode")
        if subject.runtime is None or not override.exists or override.unknown or override.open:
            return
        if any(override.get(part).unknown or override.get(part).open for part in ("limits", "requests")):
            return
        named = {key.raw for part in ("limits", "requests") for key, _ in override.get(part).pairs()}
        for element in subject.runtime.get("spec", "template", "spec", "replicatedJobs").elements():
            for container in element.get("template", "spec", "template", "spec", "containers").elements():
                if container.get("name").string != "node":
                    continue
                for part in ("limits", "requests"):
                    for key, value in container.get("resources", part).pairs():
                        if _ACCELERATOR.search(key.raw) and key.raw not in named and (value.quantity or 0) > 0:
                            yield self.hit(
                                override,
                                f"resourcesPerNode replaces the runtime's resources as a whole, and {key.raw} "
                                f"({value.raw} in runtime {subject.runtime.object_name}) is not repeated: the pods "
                                f"get none, "
                                f"and one process per CPU is started",
                                f"{key.raw}: {value.raw} in resourcesPerNode.limits as well",
                            )
                            return
