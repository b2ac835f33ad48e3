"""TW855: DeepSpeed batch sizes that no number of processes can satisfy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit


class BatchFitsNoWorld(ConfigRule):
    """``train_batch_size`` is a multiple of micro batch × accumulation."""

    id = "TW855"
    severity = "error"
    category = "frameworks"
    summary = "a train_batch_size that no number of processes gives"
    evidence = "verified"
    source = "deepspeed/runtime/config.py, _set_batch_related_parameters and _batch_assertion (0.19.5)"
    roles: ClassVar[tuple[Role, ...]] = ("deepspeed",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """The total against the product of what else is stated."""
        total = subject.get("train_batch_size")
        micro = subject.get("train_micro_batch_size_per_gpu").integer
        steps = subject.get("gradient_accumulation_steps").integer
        unit = (micro or 1) * (steps or 1)
        if total.integer is None or total.integer < 1 or unit < 2 or total.integer % unit == 0:
            return
        parts = [f"{micro} per GPU"] if micro else []
        parts += [f"{steps} accumulation steps"] if steps else []
        yield self.hit(
            total,
            f"train_batch_size is {total.integer}, which is no multiple of {' × '.join(parts)}"
            + (f" = {unit}" if len(parts) > 1 else "")
            + ": there is no number of processes with which DeepSpeed's check of the three passes, and it stops at "
            "start",
            f"train_batch_size {unit} × the number of processes, or leave it out and let DeepSpeed compute it",
        )
