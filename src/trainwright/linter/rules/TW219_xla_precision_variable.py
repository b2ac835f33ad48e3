"""TW219: XLA_USE_BF16 and its kind change the precision of everything."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import rows_of_kind
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob


class XlaPrecisionVariable(JobRule):
    """The variable acts behind PyTorch's back."""

    id = "TW219"
    severity = "warning"
    category = "accelerators"
    summary = "XLA_USE_BF16 and its kind change the precision of everything"
    evidence = "verified"
    source = "aws-neuron-sdk, end-of-support announcement of XLA_USE_BF16 and XLA_DOWNCAST_BF16 (2.23)"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Every place that sets one."""
        rows = rows_of_kind("env", "precision")
        for variable in subject.env_uses(*rows):
            if variable.value.known not in ("0", "", "false"):
                twice = any(launch.arguments.has("bf16", "fp16") for launch in subject.launches)
                yield self.hit(
                    variable,
                    rows[variable.name]["why"]
                    + ("; the program casts once more with its own option" if twice else ""),
                    rows[variable.name]["instead"],
                )
