"""TW318: NCCL's choices are pinned by hand."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import spans_nodes


class NcclTuningPinned(JobRule):
    """The tuner knows the topology."""

    id = "TW318"
    severity = "warning"
    category = "network"
    summary = "NCCL's choices are pinned by hand"
    evidence = "verified"
    source = (
        "NCCL documentation: NCCL_ALGO and NCCL_PROTO are for debugging; aws-ofi-nccl doc/efa-env-var.md: "
        "leave channels and buffer size to the tuner"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Tuning variables of multi-node jobs."""
        rows = rows_of_kind("env", "tuning")
        if not spans_nodes(subject) or any("perf" in launch.launch.script for launch in subject.launches):
            return
        for variable in subject.env_uses(*rows):
            yield self.hit(
                variable,
                f"{variable.name} {rows[variable.name]['why'].removeprefix(variable.name + ' ')}",
                "remove it, unless your own measurements on this cluster say otherwise",
            )
