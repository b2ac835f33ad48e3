"""TW324: NCCL_DEBUG=INFO or TRACE in a real run."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import spans_nodes


class NcclDebugLeftOn(JobRule):
    """WARN says all that a healthy run has to say."""

    id = "TW324"
    severity = "note"
    category = "network"
    summary = "NCCL_DEBUG=INFO or TRACE in a real run"
    evidence = "knowledge"
    source = "NCCL documentation, NCCL_DEBUG"

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Log levels above WARN."""
        if (
            not spans_nodes(subject)
            or any(True for _ in subject.env_uses("NCCL_DEBUG_FILE"))
            or any("perf" in launch.launch.script for launch in subject.launches)
        ):
            return
        for variable in subject.env_uses("NCCL_DEBUG"):
            if (variable.value.known or "").upper() in ("INFO", "TRACE"):
                yield self.hit(
                    variable,
                    f"NCCL_DEBUG={variable.value.known} makes every rank write its whole set-up to the log",
                    "NCCL_DEBUG=WARN; INFO when something is wrong",
                )
