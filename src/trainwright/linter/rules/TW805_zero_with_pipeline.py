"""TW805: ZeRO shards gradients that pipeline stages still need."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments

_PIPELINE = ("pipeline_model_parallel_size", "pipe_parallel_size", "pipeline_parallel_size")


class ZeroWithPipeline(TrainerRule):
    """The pipeline engine accepts ZeRO stages 0 and 1."""

    id = "TW805"
    severity = "error"
    category = "frameworks"
    summary = "ZeRO stage 2 or 3 together with pipeline parallelism"
    evidence = "verified"
    source = "deepspeed/runtime/pipe/engine.py, assertion in PipelineEngine (0.19); deepspeedai/DeepSpeed#3589"

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Launches with both."""
        stage = subject.zero_stage
        if stage is None or stage.value < 2 or subject.flags.has("no_pipeline_parallel"):
            return
        for name in _PIPELINE:
            size = subject.number(name)
            if isinstance(size, Known) and size.value > 1:
                yield self.hit(
                    stage,
                    f"ZeRO stage {stage.value} cannot be combined with pipeline parallelism ({name} {size.value}): "
                    f"DeepSpeed's pipeline engine stops with an assertion at start",
                    "ZeRO stage 1 (or 0) with pipeline parallelism, or stage 2 or 3 without it",
                )
                return
