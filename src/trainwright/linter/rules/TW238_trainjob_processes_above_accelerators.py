"""TW238: a TrainJob starts more processes per node than its nodes have accelerators."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.values import Known
from trainwright.linter.view.job import TrainingJob


class TrainjobProcessesAboveAccelerators(JobRule):
    """The runtime's torchrun takes numProcPerNode as it is."""

    id = "TW238"
    severity = "error"
    category = "accelerators"
    summary = "numProcPerNode is larger than the accelerators of a node"
    evidence = "verified"
    source = "kubeflow/trainer v2.3 pkg/runtime/framework/plugins/torch: PET_NPROC_PER_NODE is numProcPerNode"
    frontends: ClassVar[tuple[str, ...]] = ("TrainJob",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The number of processes against the limits of the trainer's container."""
        held, slots = subject.accelerators_per_node.known, subject.slots
        if not isinstance(slots, Known) or not held or "mig" in (subject.accelerator or ""):
            return
        if subject.accelerator is None or "gpu" not in subject.accelerator or slots.value <= held:
            return
        yield self.hit(
            slots,
            f"{slots.value} processes start on each node, which gets {held} GPUs: those above find no device "
            "(invalid device ordinal) or share one (duplicate GPU detected)",
            f"numProcPerNode: {held}, or leave it out: the runtime counts the GPUs itself",
        )
