"""TW807: a word that only the Hugging Face Trainer and Accelerate understand."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.python import calls_of
from trainwright.linter.view.trainer import TrainerArguments


class AutoWithoutHuggingFace(TrainerRule):
    """DeepSpeed itself has no "auto" for batch sizes, optimizer and scheduler."""

    id = "TW807"
    severity = "error"
    category = "frameworks"
    summary = '"auto" in a DeepSpeed file that no Hugging Face Trainer fills in'
    evidence = "verified"
    source = (
        'deepspeed/runtime/config.py and config_utils.py (0.19): "auto" is no value of DeepSpeed; '
        "LianjiaTech/BELLE#558"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """The first "auto" of files that the program itself reads."""
        config = subject.deepspeed
        if config is None or subject.launch is None or subject.is_hugging_face or subject.launch.tool == "accelerate":
            return
        raw = subject.module is not None and any(calls_of(subject.module, "deepspeed.initialize"))
        if not raw and not (subject.flags.has("deepspeed_config") and subject.module is None):
            return
        for key, value in config.pairs():
            if key.raw == "zero_optimization":
                continue
            for node in value.walk():
                if node.string == "auto":
                    yield self.hit(
                        node,
                        f'"auto" for {key.raw} is filled in by the Hugging Face Trainer or Accelerate, and '
                        f"{subject.launch.launch.script} is started with neither: DeepSpeed takes the word for a "
                        f"value and "
                        f"stops at start",
                        "a number (DeepSpeed computes one of the three batch sizes when it is left out), or the "
                        "Hugging Face "
                        "Trainer",
                    )
                    return
