"""TW007: a spec of trainwright that `trainwright run` refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit
from trainwright.linter.text import PLACEHOLDER, Span


class SpecNotValid(ConfigRule):
    """Says at lint time what loading the spec will say: unknown fields, wrong types, values that contradict."""

    id = "TW007"
    severity = "error"
    category = "files"
    summary = "a trainwright spec that is refused when it is loaded"
    evidence = "reproduced"
    source = "trainwright.spec, the very code that loads a spec"
    roles: ClassVar[tuple[Role, ...]] = ("spec",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Every problem of the spec, at its place. Variables of the environment are not asked for."""
        text = subject.text
        if subject.holder is not None or text.parent is not None or PLACEHOLDER in text.content:
            return
        from trainwright.spec.load import problems_in  # brings pydantic, which few runs of the linter need

        for problem in problems_in(text.content, text.path):
            if problem.path == text.path and not problem.what.endswith(" is not set"):
                place = _line(text.content, problem.line, problem.column)
                what = f"{problem.field}: {problem.what}" if problem.field else problem.what
                yield self.hit(Span(text, *place), what, problem.instead or "see `trainwright schema`")


def _line(content: str, line: int, column: int) -> tuple[int, int]:
    """Offsets from a place to the end of its line."""
    start = 0
    for _ in range(line - 1):
        start = content.find("\n", start) + 1
    start += max(0, column - 1)
    end = content.find("\n", start)
    return start, len(content) if end == -1 else end
