"""TW813: FlashAttention 2 and TF32 need Ampere."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.hardware import Generation, generations
from trainwright.linter.view.trainer import TrainerArguments

_YES = ("true", "1", "yes", "")
_OPTIONS = (
    (("attn_implementation", "attn_impl"), ("flash_attention_2",), "FlashAttention 2", "--attn_implementation sdpa"),
    (("use_flash_attn", "use_flash_attention_2", "flash_attention", "flash_attn"), (*_YES, "fa2"), "FlashAttention 2",
     "PyTorch's attention (sdpa) on these GPUs"),
    (("tf32",), _YES, "TF32", "no --tf32 on these GPUs"),
)  # fmt: skip


class NewerGpuFeatures(TrainerRule):
    """Both need compute capability 8.0."""

    id = "TW813"
    severity = "error"
    category = "frameworks"
    summary = "FlashAttention 2 or TF32 on a GPU older than Ampere"
    evidence = "verified"
    source = (
        "Dao-AILab/flash-attention README (FlashAttention 2 needs Ampere, Ada or Hopper); "
        'transformers/training_args.py (5.24): "--tf32 requires Ampere"'
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Options that older GPUs refuse."""
        if subject.launch is None:
            return
        found: list[tuple[Known[str], Generation]] | None = None
        for names, values, what, instead in _OPTIONS:
            stated = subject.text(*names)
            if not isinstance(stated, Known) or stated.value.lower() not in values:
                continue
            found = generations(subject.launch, project) if found is None else found
            if found and not any(generation.flash2 for _, generation in found):
                place, generation = found[0]
                yield self.hit(
                    stated,
                    f"{what} needs Ampere or newer, but {place.value} has {generation.name} GPUs (compute capability "
                    f"{generation.capability}): the program stops with an error",
                    instead,
                )
