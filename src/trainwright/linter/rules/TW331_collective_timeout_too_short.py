"""TW331: one rank prepares the data while the others wait, with the default timeout."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


class CollectiveTimeoutTooShort(LaunchRule):
    """Waiting ranks sit in a collective."""

    id = "TW331"
    severity = "warning"
    category = "network"
    summary = "one rank prepares the data while the others wait, with the default timeout"
    evidence = "reported"
    source = "transformers TrainingArguments.ddp_timeout: 1800 s; torch.distributed: 600 s for NCCL; NVIDIA/nccl#708"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Preparation under the default timeout."""
        arguments = subject.arguments
        if (
            arguments.has(
                "ddp_timeout",
                "dist_timeout",
                "timeout",
                "distributed_timeout_minutes",
                "nccl_timeout",
                "ddp_timeout_seconds",
                "streaming",
            )
            or not subject.tool
        ):
            return
        if (subject.processes_per_node.known or 1) * (subject.nnodes.known or 1) < 2:
            return
        workers = arguments.number("preprocessing_num_workers", "preprocess_num_workers", "dataset_num_proc")
        first = arguments.find("main_process_first", "data_main_process_first", "preprocess_on_main_process")
        few = isinstance(workers, Known) and 0 < workers.value <= 4
        if first is None and not few:
            return
        yield self.hit(
            first or workers,
            "the other ranks wait in a barrier while "
            + (
                "the main process prepares the data"
                if first is not None
                else f"{workers.known} worker{'s' if workers.known != 1 else ''} per rank prepare the data"
            )
            + ": after 30 minutes (HF Trainer; 10 in plain PyTorch) the watchdog kills the job",
            "--ddp_timeout 14400, or prepare (or stream) the data beforehand",
        )
