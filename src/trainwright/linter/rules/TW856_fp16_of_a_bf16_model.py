"""TW856: fp16 for a model that overflows in it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.facts.data import read_rows
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.trainer import TrainerArguments


class Fp16OfABf16Model(TrainerRule):
    """Activations of some models are larger than fp16 can hold."""

    id = "TW856"
    severity = "warning"
    category = "frameworks"
    summary = "a model that was trained in bf16 and overflows in fp16 is trained in fp16"
    evidence = "reported"
    source = (
        "Transformers documentation, DeepSpeed troubleshooting: NaN loss of models pretrained in bf16 (T5 and other "
        "models from TPUs) in fp16; huggingface/transformers#10956"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Families in the table."""
        asked, model = subject.fp16, subject.model
        if asked is None or not asked.value or model is None:
            return
        name = model.value.rstrip("/").rsplit("/", 1)[-1].lower()
        for prefix, row in read_rows("bf16_models").items():
            if name.startswith(prefix):
                yield self.hit(
                    asked,
                    f"{model.value} ({row['family']}) was pretrained in bf16, and its activations exceed 65504, the "
                    "largest number of fp16: the loss becomes NaN, or the loss scale falls until nothing is learned",
                    "bf16 (Ampere and newer), or fp32 on older GPUs",
                )
                return
