"""TW317: a variable that current versions do not need."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class VariableObsolete(JobRule):
    """Harmless, and a trap for the next reader."""

    id = "TW317"
    severity = "note"
    category = "network"
    summary = "a variable that current versions do not need"
    evidence = "verified"
    source = "aws-ofi-nccl doc/efa-env-var.md (1.7 and newer)"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Names in the table with a last version."""
        rows = rows_of_kind("env", "obsolete")
        neuron = "neuron" in (subject.accelerator or "")
        for variable in subject.env_uses(*rows):
            row = rows[variable.name]
            if neuron and row.get("keep_on") == "neuron":
                continue
            yield self.hit(variable, f"{variable.name}: {row['why']}", row["instead"])
