"""TW009: a rule of the linter that failed itself."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit


class RuleFailed(FileRule):
    """The engine reports it in place of a rule that raised; there is nothing to look for in a file."""

    id = "TW009"
    severity = "note"
    category = "files"
    summary = "a rule of the linter failed on these files"
    evidence = "verified"
    source = "trainwright.linter.engine: an exception in a rule becomes this finding, and the other rules go on"

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """Nothing by itself."""
        return iter(())
