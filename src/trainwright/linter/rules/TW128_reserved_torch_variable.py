"""TW128: a TrainJob sets a variable that its runtime reserves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob

_RESERVED = {
    "PET_NNODES": "spec.trainer.numNodes",
    "PET_NPROC_PER_NODE": "spec.trainer.numProcPerNode",
    "PET_NODE_RANK": "leave it out: the runtime sets it per pod",
    "PET_MASTER_ADDR": "leave it out: the runtime sets it",
    "PET_MASTER_PORT": "leave it out: the runtime sets it",
}


class ReservedTorchVariable(JobRule):
    """The torch runtime sets ``PET_*`` itself."""

    id = "TW128"
    severity = "error"
    category = "launch"
    summary = "a TrainJob sets a variable that its runtime reserves"
    evidence = "verified"
    source = (
        "kubeflow/trainer 2.3.0, torch plugin validation: envs PET_NNODES, PET_NPROC_PER_NODE, "
        "PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT are reserved"
    )
    frontends: ClassVar[tuple[str, ...]] = ("TrainJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Reserved names in the trainer's environment."""
        for entry in subject.get("spec", "trainer", "env").elements():
            name = entry.get("name").string
            if name in _RESERVED:
                yield self.hit(
                    entry.get("name"),
                    f"{name} is reserved for the torch runtime: the TrainJob is refused",
                    _RESERVED[name],
                )
