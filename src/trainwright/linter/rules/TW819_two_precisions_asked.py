"""TW819: fp16 and bf16 exclude each other on the command line too."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments


class TwoPrecisionsAsked(TrainerRule):
    """One run trains in one half precision."""

    id = "TW819"
    severity = "error"
    category = "frameworks"
    summary = "the trainer is asked for fp16 and bf16 at once"
    evidence = "verified"
    source = (
        'transformers/training_args.py, _validate_args (5.24): "At most one of fp16 and bf16 can be '
        'True"; NVIDIA/Megatron-LM, validate_args: assert not args.bf16'
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Both switched on."""
        half, brain = subject.switch("fp16"), subject.switch("bf16")
        if isinstance(half, Known) and isinstance(brain, Known) and half.value and brain.value:
            yield self.hit(
                half,
                "fp16 and bf16 are both switched on: the trainer stops at start",
                "bf16 on Ampere and newer, fp16 on V100 and T4; not both",
            )
