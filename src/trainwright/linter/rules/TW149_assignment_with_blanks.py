"""TW149: NAME = value, which the shell runs as a command."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.documents import ScriptDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ScriptRule

_NAME = re.compile(r"[A-Z][A-Z0-9_]+")


class AssignmentWithBlanks(ScriptRule):
    """An assignment has no blanks around its sign."""

    id = "TW149"
    severity = "error"
    category = "launch"
    summary = "blanks around the sign of an assignment"
    evidence = "reproduced"
    source = "POSIX shell grammar: an assignment is one word; reproduced: command not found"

    def check(self, subject: ScriptDocument, project: Project) -> Iterator[Hit]:
        """``NAME = …``."""
        for command in subject.plain.commands:
            words = command.words
            if len(words) < 2 or words[1].known is None or words[1].quoted:
                continue
            name, sign = words[0].known or "", words[1].known or ""
            if not _NAME.fullmatch(name) or not sign.startswith("=") or sign.startswith("=="):
                continue
            yield self.hit(
                words[0].span,
                f"with blanks around = this is no assignment: the shell looks for a program called {name}, and "
                f"{name} stays unset",
                f"{name}={words[2].written if len(words) > 2 else '…'}",
            )
