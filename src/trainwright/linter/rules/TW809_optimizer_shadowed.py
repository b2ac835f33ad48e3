"""TW809: --optim does nothing when the DeepSpeed file has an optimizer."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments

_OTHER = ("8bit", "4bit", "paged", "bnb", "anyprecision", "apex", "torchao", "galore")


class OptimizerShadowed(TrainerRule):
    """An optimizer section wins over ``--optim``."""

    id = "TW809"
    severity = "warning"
    category = "frameworks"
    summary = "the DeepSpeed file's optimizer replaces the one that the trainer is told to use"
    evidence = "verified"
    source = (
        "transformers/integrations/deepspeed.py, deepspeed_optim_sched (5.24): an optimizer section is "
        "used in place of --optim"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Optimizers of different families."""
        if subject.deepspeed is None or not subject.is_hugging_face:
            return
        kind = subject.deepspeed.get("optimizer", "type")
        asked = subject.text("optim")
        if kind.string is None or not isinstance(asked, Known):
            return
        wanted, used = asked.value.lower(), kind.string.lower()
        if wanted.startswith("adamw_") and not any(word in wanted for word in _OTHER) and used in ("adam", "adamw"):
            return
        if wanted.replace("_", "").startswith(used):
            return
        yield self.hit(
            kind,
            f"the DeepSpeed file's optimizer {kind.string} is what runs; --optim {asked.value} is ignored",
            f"no optimizer section in the DeepSpeed file (then --optim {asked.value} is used), or no --optim",
        )
