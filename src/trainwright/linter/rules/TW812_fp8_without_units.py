"""TW812: A100 and older cannot compute in fp8."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.hardware import generations
from trainwright.linter.view.trainer import TrainerArguments

_OPTIONS = ("fp8_format", "fp8_recipe", "model.fp8")
_OFF = ("none", "null", "false", "")


class Fp8WithoutUnits(TrainerRule):
    """fp8 needs Ada (8.9) or Hopper (9.0) and newer."""

    id = "TW812"
    severity = "error"
    category = "frameworks"
    summary = "fp8 training on a GPU that has no fp8 units"
    evidence = "verified"
    source = "NVIDIA/TransformerEngine documentation: FP8 needs compute capability 8.9 (Ada) or 9.0 (Hopper)"

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Launches in fp8 whose GPUs are known and all older."""
        asked = subject.fp8 or next(
            (flag for name in _OPTIONS if isinstance(flag := subject.text(name), Known) and flag.value not in _OFF),
            None,
        )
        if asked is None or subject.launch is None:
            return
        found = generations(subject.launch, project)
        if found and not any(generation.fp8 for _, generation in found):
            place, generation = found[0]
            yield self.hit(
                asked,
                f"fp8 is asked for, but {place.value} has {generation.name} GPUs (compute capability "
                f"{generation.capability}), which have no fp8 units: Transformer Engine stops at the first layer",
                "bf16 on these GPUs, or H100, H200, L4, L40S and newer for fp8",
            )
