"""TW146: a whole command line as the name of one program."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.text import PLACEHOLDER


class CommandIsOneWord(PodRule):
    """Without a shell nothing splits words."""

    id = "TW146"
    severity = "error"
    category = "launch"
    summary = "a command line in one string, which no shell takes apart"
    evidence = "verified"
    source = "Kubernetes documentation, command and arguments: the list is what the system call gets"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """The first word of ``command``."""
        if subject.job.frontend.startswith("Ray"):
            return  # The operator joins these words into a line for a shell.
        for container in subject.group.containers:
            if container.node.get("command").elements() == [] or not container.words:
                continue
            text = container.words[0].expanded.strip()
            name, blank, rest = text.partition(" ")
            if not blank or PLACEHOLDER in name or not rest.strip():
                continue
            words = ", ".join(f'"{part}"' for part in text.split()[:4])
            yield self.hit(
                container.words[0].span,
                f"the container starts the program called {text.split(chr(10))[0][:60]!r}, blanks and options "
                "included: there is none, and the pod fails with no such file or directory",
                f'[{words}, …], or ["bash", "-c", "exec {name} …"]',
            )
