"""TW131: options on a line of their own: the line above is not continued."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.shell.words import Command, Variable, Word
from trainwright.linter.text import PLACEHOLDER, Span
from trainwright.linter.view.job import TrainingJob


def _stray_options(commands: Sequence[Command], variables: Mapping[str, Variable]) -> Iterator[tuple[Span, str]]:
    """Options in the place of a command; ``--name=value`` there reads like an assignment."""
    for command in commands:
        name = command.words[0].known or ""
        if name.startswith("--") and name[2:3].isalpha():
            yield command.words[0].span, name
        for assigned, variable in command.assigned.items():
            if assigned.startswith("--"):
                yield variable.span, assigned
    for assigned, variable in variables.items():
        if assigned.startswith("--"):
            yield variable.span, assigned


_BLANK = re.compile(r"[ \t]*\\[ \t]+\r?\n")


def _blank_behind(word: Word) -> bool:
    """Whether a backslash and a blank end the line behind a word."""
    return _BLANK.match(word.span.text.content, word.span.end) is not None


class LineNotContinued(JobRule):
    """A blank behind the backslash breaks the command in two."""

    id = "TW131"
    severity = "error"
    category = "launch"
    summary = "options on a line of their own: the line above is not continued"
    evidence = "verified"
    source = (
        "POSIX shell: a backslash continues a line only as its very last character, and a comment ends at "
        "its own line"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Commands whose name is an option."""
        scripts = (
            [subject.script.plain]
            if subject.script is not None
            else [c.script for c in subject.containers() if c.script is not None]
        )
        for script in scripts:
            if script.has_error or PLACEHOLDER in script.text.content or script.text.root().shown is not None:
                continue
            broken = next((c for c in script.commands if c.words and _blank_behind(c.words[-1])), None)
            if broken is not None:
                yield self.hit(
                    broken.words[-1],
                    "a blank follows the backslash, so the line is not continued: the command ends here with "
                    "an empty "
                    "argument, and the next line is a command of its own",
                    "the backslash as the very last character of the line",
                    severity="warning" if subject.document.path.endswith((".md", ".markdown")) else None,
                )
                continue
            for place, name in _stray_options(script.commands, script.variables):
                yield self.hit(
                    place,
                    f"the shell takes {name} for a command of its own: the command above ended before "
                    "it (no backslash there, a blank behind it, or a comment between)",
                    "end every line of the command but the last in a backslash, with nothing behind it",
                    severity="warning" if subject.document.path.endswith((".md", ".markdown")) else None,
                )
                break
