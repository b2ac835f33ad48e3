"""TW822: without gathering, ZeRO-3 leaves shards instead of a model."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.trainer import TrainerArguments


class Zero3WithoutGather(TrainerRule):
    """Under ZeRO-3 no rank holds the whole model."""

    id = "TW822"
    severity = "warning"
    category = "frameworks"
    summary = "ZeRO-3 saves no complete model"
    evidence = "verified"
    source = (
        "deepspeed/runtime/zero/config.py (0.19), gather_16bit_weights_on_model_save defaults to false; "
        "transformers/trainer.py, save_model under DeepSpeed"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Stage 3 with the setting missing or off."""
        stage = subject.zero_stage
        if (
            stage is None
            or stage.value != 3
            or not subject.is_hugging_face
            or subject.text("save_strategy").known == "no"
        ):
            return
        if subject.deepspeed is not None:
            section = subject.deepspeed.get("zero_optimization")
            stated = [section.get(f"stage3_gather_{bits}_weights_on_model_save") for bits in ("16bit", "fp16")]
        elif subject.accelerate is not None:
            section = subject.accelerate.get("deepspeed_config")
            stated = [section.get("zero3_save_16bit_model")]
        else:
            return
        if section.open or any(node.boolean or node.unknown for node in stated):
            return
        place = next((node for node in stated if node.exists), None)
        yield self.hit(
            place if place is not None else stage,
            "under ZeRO-3 every rank holds a part of each weight, and they are not gathered on save: checkpoints "
            "hold "
            "shards, but no model that can be loaded elsewhere",
            '"stage3_gather_16bit_weights_on_model_save": true (zero3_save_16bit_model in an Accelerate file), or '
            "zero_to_fp32.py on the checkpoint afterwards",
        )
