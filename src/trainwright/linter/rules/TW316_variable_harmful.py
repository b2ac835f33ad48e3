"""TW316: a variable that breaks things on current systems."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class VariableHarmful(JobRule):
    """Left over from old kernels and libraries."""

    id = "TW316"
    severity = "warning"
    category = "network"
    summary = "a variable that breaks things on current systems"
    evidence = "verified"
    source = (
        "aws-ofi-nccl doc/efa-env-var.md: do not use RDMAV_*; ofiwg/libfabric prov/efa/src/efa_env.c: "
        "variables that abort"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Names in the table that do damage."""
        rows = rows_of_kind("env", "harmful", "fatal")
        for variable in subject.env_uses(*rows):
            fatal = rows[variable.name]["kind"] == "fatal"
            only = rows[variable.name].get("values")
            value = variable.value.known
            if fatal or (value in only if only else value not in ("0", "")):
                yield self.hit(
                    variable,
                    rows[variable.name]["why"],
                    rows[variable.name]["instead"],
                    severity="error" if fatal else None,
                )
