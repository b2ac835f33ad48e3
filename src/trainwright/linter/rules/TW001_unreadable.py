"""TW001: a file that its own format does not allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project, SourceFile
from trainwright.linter.rule import FileRule, Hit


class Unreadable(FileRule):
    """YAML or JSON that no parser accepts is rejected by everything that reads it."""

    id = "TW001"
    severity = "error"
    category = "files"
    summary = "the file is not valid YAML, JSON or Python"
    evidence = "reproduced"
    source = "YAML 1.1 and RFC 8259; libyaml, Python's json and ast give the message"

    _languages: ClassVar[dict[str, str]] = {
        "yaml": "YAML",
        "json": "JSON",
        "python": "Python",
        "shell": "YAML or JSON inside",
    }

    def check(self, subject: SourceFile, project: Project) -> Iterator[Hit]:
        """One hit for each problem of the file's syntax."""
        language = self._languages.get(subject.language, "text")
        for problem in subject.problems:
            if problem.code == "syntax":
                yield self.hit(
                    problem.span, f"this is not valid {language}: {problem.what}", "correct the syntax at this line"
                )
            elif problem.code == "template":
                yield self.hit(
                    problem.span,
                    f"the template cannot be read as YAML: {problem.what}",
                    "lint the rendered file (helm template, envsubst) as well",
                    "note",
                )
            elif problem.code == "python":
                yield self.hit(
                    problem.span,
                    f"Python cannot parse this file: {problem.what}",
                    "correct the syntax at this line",
                    "note",
                )
            elif problem.code == "missing":
                yield self.hit(
                    problem.span, f"the file cannot be opened: {problem.what}", "give the path of a readable file"
                )
            elif problem.code == "binary":
                yield self.hit(
                    problem.span, f"the file cannot be linted: {problem.what}", "give a text file in UTF-8"
                )
