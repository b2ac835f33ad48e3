"""TW207: a number of processes that Trainium 1 does not support."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import node_types_of


class NeuronProcessCount(LaunchRule):
    """The collectives of trn1.32xlarge are built for 1, 2, 8 and 32 ranks."""

    id = "TW207"
    severity = "error"
    category = "accelerators"
    summary = "a number of processes that Trainium 1 does not support"
    evidence = "reported"
    source = (
        "aws-neuron-sdk, release notes of PyTorch Neuron 1.11 (2022): 1, 2, 8 or 32 workers on trn1.32xlarge; "
        "huggingface/optimum-neuron#424 and #761 (16 fails); against it #619, where the runtime lists 16 as well"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Counts on the first generation."""
        kinds = {kind.name for kind in node_types_of(subject, project)}
        started = subject.processes_per_node
        if not kinds or not kinds <= {"trn1.32xlarge", "trn1n.32xlarge"} or not subject.is_neuron or not subject.tool:
            return
        if isinstance(started, Known) and started.value not in (1, 2, 8, 32) and 0 < started.value < 32:
            yield self.hit(
                started,
                f"{sorted(kinds)[0]} supports 1, 2, 8 or 32 processes per node, not {started.value}: "
                "the runtime cannot build the ring between the NeuronCores",
                "--nproc_per_node=32 (all 32 NeuronCores), or 8, 2, 1",
            )
