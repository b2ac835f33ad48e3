"""TW143: a line that looks like a directive and is a comment."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    ScriptRule,
)


class DirectiveIsAComment(ScriptRule):
    """``# SBATCH`` is a comment."""

    id = "TW143"
    severity = "warning"
    category = "launch"
    summary = "a line that looks like a directive and is a comment"
    evidence = "verified"
    source = "sbatch(1): a directive begins with exactly #SBATCH at the start of the line"

    def check(self, subject: ScriptDocument, project: Project) -> Iterator[Hit]:
        """Comments that were meant as directives."""
        if subject.is_sbatch:
            for line in subject.directives.lookalikes:
                yield self.hit(
                    line,
                    "to Slurm this line is a comment: a directive begins with exactly #SBATCH",
                    "#SBATCH …, or ##SBATCH when it is meant to be off",
                )
