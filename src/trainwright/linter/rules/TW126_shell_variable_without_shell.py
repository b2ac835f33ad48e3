"""TW126: a shell variable in a command that no shell reads."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.exec_form import shell_variables


class ShellVariableWithoutShell(PodRule):
    """Kubernetes expands ``$(NAME)``, never ``$NAME``."""

    id = "TW126"
    severity = "error"
    category = "launch"
    summary = "a shell variable in a command that no shell reads"
    evidence = "verified"
    source = "Kubernetes: command and args are executed without a shell; only $(NAME) is expanded"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Declared variables in shell notation."""
        for container in subject.group.containers:
            seen: set[str] = set()
            for name, word in shell_variables(container):
                variable = container.env.get(name)
                if variable is None or name in seen:
                    continue
                seen.add(name)
                yield self.hit(
                    word,
                    f"no shell reads this command, so the program gets the text ${name} instead of its value",
                    f"$({name}), which Kubernetes expands, or command: [bash, -c, …]",
                    severity=None
                    if variable.origin == "operator" or not variable.words or variable.value.known is not None
                    else "warning",
                )
