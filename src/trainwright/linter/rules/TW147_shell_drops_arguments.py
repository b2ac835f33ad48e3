"""TW147: sh -c takes one string, and the rest of the command is lost."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.shell.chain import SHELLS


class ShellDropsArguments(PodRule):
    """What follows the string of ``-c`` becomes $0, $1, …"""

    id = "TW147"
    severity = "error"
    category = "launch"
    summary = "options behind the string of sh -c, which the program never gets"
    evidence = "reproduced"
    source = "POSIX sh: operands after the command string of -c are $0, $1, …; reproduced"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Containers that start with ``sh -c``, followed by words that the string does not ask for."""
        for container in subject.group.containers:
            words = container.words
            if len(words) < 4 or (words[0].known or "").rsplit("/", 1)[-1] not in SHELLS:
                continue
            option, text = words[1].known or "", words[2].expanded
            if not option.startswith("-") or option.startswith("--") or not option.endswith("c"):
                continue
            if "$" in words[2].written or not words[3].expanded.startswith("-") or " " in text.strip():
                continue
            yield self.hit(
                words[3].span,
                f"{words[0].known} -c runs the one string {text!r}; {words[3].expanded} and what follows become "
                "its $0, $1, … and never reach the program, which starts without any option",
                "the whole command line in the one string behind -c, or no shell at all",
            )
