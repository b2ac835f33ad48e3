"""TW827: every data-parallel rank gets whole micro-batches."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import degrees


class GlobalBatchNotDivisible(LaunchRule):
    """global batch = micro batch × data-parallel size × accumulation, with whole numbers."""

    id = "TW827"
    severity = "error"
    category = "frameworks"
    summary = "the global batch is no multiple of micro batch × data-parallel size"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM, megatron/core/num_microbatches_calculator.py: assertion; "
        "NVIDIA/Megatron-LM#414; mosaicml/examples#41"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Batches that leave a remainder."""
        found = degrees(subject)
        arguments = subject.arguments
        if not found.megatron and not (arguments.has("micro_batch_size") and arguments.has("global_batch_size")):
            return
        total = arguments.number("global_batch_size", "model.global_batch_size", "data.global_batch_size")
        micro = arguments.number("micro_batch_size", "model.micro_batch_size", "data.micro_batch_size").known
        data = found.data_parallel
        if not total.known or not micro or not data or total.known % (micro * data) == 0:
            return
        unit = micro * data
        world = found.world.known
        lower = total.known // unit * unit
        yield self.hit(
            total,
            f"global batch {total.known} is no multiple of {unit} (micro batch {micro} × data-parallel size {data}, "
            f"which is "
            f"{world} processes / {found.stated()}): Megatron-LM stops with an assertion, others train with a "
            f"smaller batch",
            f"--global-batch-size {lower} or {lower + unit}" if lower else f"--global-batch-size {unit}",
        )
