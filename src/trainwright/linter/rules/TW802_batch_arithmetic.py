"""TW802: DeepSpeed's batch sizes do not multiply."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch

_PARALLEL = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
             "sequence_parallel_size")  # fmt: skip


class BatchArithmetic(LaunchRule):
    """``train_batch_size`` is micro batch × accumulation × data-parallel processes."""

    id = "TW802"
    severity = "error"
    category = "frameworks"
    summary = "train_batch_size is not micro batch × accumulation × processes"
    evidence = "verified"
    source = "deepspeed/runtime/config.py, _batch_assertion (0.19.5); bigcode-project/starcoder#41"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The three numbers of the file against the world size of the launch that names it."""
        named = subject.arguments.text("deepspeed", "deepspeed_config", "ds_config", "deepspeed_config_file").known
        found = project.file(named, subject.job.document)
        if not isinstance(found, ConfigDocument) or found.role != "deepspeed":
            return
        world = subject.world_size.known
        if world is None or any((subject.arguments.number(name).known or 1) != 1 for name in _PARALLEL):
            return
        total = found.get("train_batch_size")
        micro, steps = (
            found.get("train_micro_batch_size_per_gpu").integer,
            found.get("gradient_accumulation_steps").integer,
        )
        if total.integer is None or micro is None or steps is None or total.integer == micro * steps * world:
            return
        product = micro * steps * world
        yield self.hit(
            total,
            f"train_batch_size is {total.integer}, but {micro} per GPU × {steps} "
            f"accumulation steps × {world} processes is {product}: DeepSpeed stops at start with an "
            f"assertion",
            f"train_batch_size {product}, or leave one of the three out and let DeepSpeed compute it",
        )
