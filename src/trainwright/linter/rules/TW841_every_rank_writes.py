"""TW841: several processes write one file at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from trainwright.linter.documents import PythonDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PythonRule
from trainwright.linter.view.loops import one_rank_only
from trainwright.linter.view.python import calls, calls_of


class EveryRankWrites(PythonRule):
    """One rank saves what all ranks hold."""

    id = "TW841"
    severity = "warning"
    category = "frameworks"
    summary = "every rank writes the same checkpoint file"
    evidence = "reported"
    source = "PyTorch tutorial on DistributedDataParallel (save on one process)"

    def check(self, subject: PythonDocument, project: Project) -> Iterator[Hit]:
        """``torch.save`` in files that start a process group and never compare a rank."""
        if not any(calls_of(subject, "torch.distributed.init_process_group")):
            return
        if any(one_rank_only(subject, call.node) for call in calls(subject)) or _asks_rank(subject.tree):
            return
        for call in calls_of(subject, "torch.save"):
            path = call.argument(1, "f")
            if isinstance(path, ast.Constant) or (isinstance(path, ast.JoinedStr) and "rank" not in ast.dump(path)):
                yield self.hit(
                    call.span,
                    "every rank writes this file, at the same time and under the same name: on a shared file system "
                    "it ends "
                    "up torn",
                    "if dist.get_rank() == 0: torch.save(…), or the rank in the file name for sharded state",
                )


def _asks_rank(tree: ast.Module) -> bool:
    """Whether any condition of the file mentions a rank or the main process."""
    tests = [n.test for n in ast.walk(tree) if isinstance(n, ast.If | ast.IfExp)]
    return any("rank" in ast.dump(test).lower() or "main_process" in ast.dump(test) for test in tests)
