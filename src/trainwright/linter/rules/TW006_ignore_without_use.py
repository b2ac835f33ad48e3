"""TW006: a comment that ignores what is not there."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit


class IgnoreWithoutUse(FileRule):
    """Only the engine knows, when all other rules have run, which comments were of use: it makes the findings."""

    id = "TW006"
    severity = "note"
    category = "files"
    summary = "a trainwright: ignore comment that hides no finding"
    evidence = "verified"
    source = "the findings of this very run"

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """Nothing: see ``engine.lint_files``."""
        return iter(())
