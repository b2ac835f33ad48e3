"""TW811: T4, V100 and older cannot compute in bf16."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.hardware import generations
from trainwright.linter.view.trainer import TrainerArguments


class Bf16WithoutUnits(TrainerRule):
    """bf16 needs Ampere (compute capability 8.0) or newer."""

    id = "TW811"
    severity = "error"
    category = "frameworks"
    summary = "bf16 training on a GPU that has no bf16 units"
    evidence = "verified"
    source = (
        "CUDA programming guide (bfloat16 tensor cores from compute capability 8.0); "
        'transformers/training_args.py, _validate_args (5.24): "You need Ampere+ GPU"'
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Launches in bf16 whose GPUs are known and all older."""
        if subject.bf16 is None or subject.launch is None:
            return
        found = generations(subject.launch, project)
        if found and not any(generation.bf16 for _, generation in found):
            place, generation = found[0]
            yield self.hit(
                subject.bf16,
                f"bf16 is asked for, but {place.value} has {generation.name} GPUs (compute capability "
                f"{generation.capability}), which have no bf16 units: the Hugging Face Trainer refuses to start, "
                f"others "
                f"emulate it many times slower",
                "fp16 with loss scaling on these GPUs (--fp16 true), or Ampere and newer (A100, A10G, L4, H100) for "
                "bf16",
            )
