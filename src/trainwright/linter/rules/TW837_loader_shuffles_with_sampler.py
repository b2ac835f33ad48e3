"""TW837: the sampler decides the order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import assigned
from trainwright.linter.view.python import calls_of, literal


class LoaderShufflesWithSampler(PythonRule):
    """A sampler and ``shuffle=True`` exclude each other."""

    id = "TW837"
    severity = "error"
    category = "frameworks"
    summary = "a DataLoader with a sampler and shuffle=True"
    evidence = "verified"
    source = 'torch/utils/data/dataloader.py (2.15): ValueError "sampler option is mutually exclusive with shuffle"'

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """Calls with both."""
        for call in calls_of(subject, "torch.utils.data.DataLoader", "DataLoader"):
            sampler = call.argument(3, "sampler")
            if (
                sampler is None
                or isinstance(sampler, ast.Constant | ast.IfExp)
                or literal(call.argument(2, "shuffle")) is not True
            ):
                continue
            if isinstance(sampler, ast.Name) and any(literal(v) is None and isinstance(v, ast.Constant)
                                                     for v in assigned(subject, sampler.id)):  # fmt: skip
                continue
            yield self.hit(
                call.span,
                "sampler and shuffle=True exclude each other: the DataLoader raises a ValueError",
                "no shuffle here; DistributedSampler(dataset, shuffle=True) shuffles",
            )
