"""TW002: a file too large or too deeply nested to be a manifest."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit


class TooLarge(FileRule):
    """Limits keep the linter fast on hostile or generated input; the API server has lower ones."""

    id = "TW002"
    severity = "warning"
    category = "files"
    summary = "the file is too large or too deeply nested to be read"
    evidence = "verified"
    source = "etcd accepts requests of at most 1.5 MiB by default (etcd --max-request-bytes)"

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """One hit for each limit that was met."""
        for problem in subject.problems:
            if problem.code in ("size", "depth"):
                yield self.hit(
                    problem.span,
                    f"the rest of the file was not checked: {problem.what}",
                    "split the file; an object above 1.5 MiB is refused by the API server anyway",
                )
