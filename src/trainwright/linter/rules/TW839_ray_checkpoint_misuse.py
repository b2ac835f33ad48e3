"""TW839: get_checkpoint returns a Checkpoint or None."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.python import calls_of, literal, nodes

_TRAINERS = ("ray.train.torch.TorchTrainer", "ray.train.torch.torch_trainer.TorchTrainer",
             "ray.train.data_parallel_trainer.DataParallelTrainer", ".TorchTrainer")  # fmt: skip


class RayCheckpointMisuse(PythonRule):
    """A Checkpoint is opened with ``as_directory``."""

    id = "TW839"
    severity = "error"
    category = "frameworks"
    summary = "Ray Train's checkpoint is used as something that it is not"
    evidence = "reproduced"
    source = (
        "reproduced with Ray 2.60: get_checkpoint has no __enter__; "
        "CheckpointConfig(checkpoint_frequency=…) raises for training functions"
    )

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Both misuses."""
        for node in nodes(subject):
            if isinstance(node, ast.With):
                for item in node.items:
                    if isinstance(item.context_expr, ast.Call) and any(
                        call.node is item.context_expr for call in calls_of(subject, "ray.train.get_checkpoint")
                    ):
                        yield self.hit(
                            subject.span(item.context_expr),
                            "get_checkpoint returns a Checkpoint or None, and neither can be used with `with`: it "
                            "raises at "
                            "every start",
                            "checkpoint = ray.train.get_checkpoint(); if checkpoint: with checkpoint.as_directory() "
                            "as path: …",
                        )
        if not any(calls_of(subject, *_TRAINERS)):
            return
        for call in calls_of(
            subject, "ray.train.CheckpointConfig", "ray.air.CheckpointConfig", "ray.air.config.CheckpointConfig"
        ):
            for name in ("checkpoint_frequency", "checkpoint_at_end"):
                value = call.keyword(name)
                if value is not None and literal(value) not in (0, False, None):
                    yield self.hit(
                        subject.span(value),
                        f"{name} does not apply to training functions: Ray raises when the trainer is created",
                        "ray.train.report(metrics, checkpoint=Checkpoint.from_directory(path)) in the training "
                        "function",
                    )
