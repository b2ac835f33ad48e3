"""TW850: a Ray Train loop that reports metrics and never a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, imports_module

_REPORTS = ("ray.train.report", "ray.air.session.report", "ray.tune.report")
_WANTS = ("ray.train.CheckpointConfig", "ray.air.CheckpointConfig", "ray.air.config.CheckpointConfig",
          "ray.train.get_checkpoint")  # fmt: skip


class RayReportsNoCheckpoint(PythonRule):
    """What is not reported is not kept."""

    id = "TW850"
    severity = "warning"
    category = "frameworks"
    summary = "Ray Train is set up for checkpoints, and no checkpoint is ever reported"
    evidence = "verified"
    source = "docs.ray.io, ray.train.report(metrics, checkpoint=Checkpoint.from_directory(…)); ray 2.60"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Files with reports none of which carries a checkpoint, that configure or read checkpoints."""
        if not imports_module(subject, "ray"):
            return
        reports = list(calls_of(subject, *_REPORTS))
        if not reports or not any(calls_of(subject, *_WANTS)):
            return
        if any(call.argument(1, "checkpoint") is not None or call.has_star() for call in reports):
            return
        if any(calls_of(subject, ".RayTrainReportCallback", "ray.train.huggingface.transformers.prepare_trainer")):
            return
        yield self.hit(
            reports[0].span,
            "the loop reports metrics only: Ray keeps no checkpoint, num_to_keep has nothing to keep, and after a "
            "failure get_checkpoint() gives None and training begins again",
            "ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder)) on rank 0, and checkpoint=None "
            "on the other ranks",
        )
