"""TW859: activation checkpointing is asked for by the trainer and by FSDP."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments


class RecomputedTwice(TrainerRule):
    """One of the two is enough."""

    id = "TW859"
    severity = "warning"
    category = "frameworks"
    summary = "activation checkpointing is switched on twice"
    evidence = "verified"
    source = (
        "transformers/training_args.py (5.24), _process_fsdp_args: prefer fsdp_config's activation_checkpointing to "
        "gradient_checkpointing under FSDP; transformers 4 stops with a ValueError when both are on"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """The Trainer's switch beside that of FSDP's settings."""
        own = subject.switch("gradient_checkpointing")
        if not isinstance(own, Known) or not own.value:
            return
        # Axolotl switches one of the two off itself.
        if subject.file is not None and subject.file.get("base_model").exists and subject.file.get("datasets").exists:
            return
        places = []
        if subject.accelerate is not None and subject.accelerate.get("distributed_type").string == "FSDP":
            places.append(subject.accelerate.get("fsdp_config", "fsdp_activation_checkpointing"))
        if subject.file is not None:
            settings = subject.file.get("fsdp_config")
            places += [settings.get("activation_checkpointing"), settings.get("fsdp_activation_checkpointing")]
        for place in places:
            if place.boolean:
                yield self.hit(
                    own,
                    "gradient_checkpointing wraps the layers and FSDP's activation_checkpointing wraps them again: "
                    "transformers 4 refuses to start, and where it runs, activations are computed three times",
                    "activation checkpointing in the FSDP settings only",
                )
                return
