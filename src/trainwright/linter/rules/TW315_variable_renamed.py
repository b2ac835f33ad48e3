"""TW315: an old name of a variable."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class VariableRenamed(JobRule):
    """Old names stop working one release at a time."""

    id = "TW315"
    severity = "warning"
    category = "network"
    summary = "an old name of a variable"
    evidence = "verified"
    source = (
        "PyTorch 2.15 ProcessGroupNCCL (deprecated names); NCCL documentation; ofiwg/libfabric prov/efa/src/efa_env.c"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Names in the table with another one beside them."""
        rows = rows_of_kind("env", "renamed", "removed")
        for variable in subject.env_uses(*rows):
            row = rows[variable.name]
            if row.get("renamed") and any(True for _ in subject.env_uses(row["renamed"])):
                continue
            yield self.hit(variable, row["why"], row["instead"])
