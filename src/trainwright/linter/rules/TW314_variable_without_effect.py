"""TW314: a variable that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class VariableWithoutEffect(JobRule):
    """The name looks right, and nobody reads it."""

    id = "TW314"
    severity = "warning"
    category = "network"
    summary = "a variable that nothing reads"
    evidence = "verified"
    source = "NVIDIA/nccl 2.30.7 (all parameters), PyTorch 2.15 sources; sgl-project/sglang#3784"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Names in the table that nothing reads."""
        rows = rows_of_kind("env", "no_effect")
        for variable in subject.env_uses(*rows):
            if variable.name.startswith("DDP_") and not variable.exported:
                continue
            yield self.hit(variable, rows[variable.name]["why"], rows[variable.name]["instead"])
