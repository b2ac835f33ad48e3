"""TW005: a comment that ignores a rule that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.configuration import check_prefixes
from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit
from trainwright.linter.suppressions import read_suppressions


class IgnoreOfNoRule(FileRule):
    """A misspelled id ignores nothing, and the reader believes that it does."""

    id = "TW005"
    severity = "warning"
    category = "files"
    summary = "a trainwright: ignore comment names a rule that does not exist"
    evidence = "verified"
    source = "trainwright's own table of rules"

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """One hit for each name that begins no rule's id."""
        for suppression in read_suppressions(subject):
            for prefix, hint in check_prefixes(suppression.prefixes):
                yield self.hit(suppression.span, f"no rule's id begins with {prefix!r}: this ignores nothing", hint)
