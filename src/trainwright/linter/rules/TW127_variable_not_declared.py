"""TW127: $(NAME) of a variable that the container does not declare."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    PodRule,
    Pods,
)
from trainwright.linter.view.exec_form import has_shell, undeclared

_KINDS = ("Pod", "Job", "JobSet", "PyTorchJob", "VolcanoJob", "Deployment", "StatefulSet")


class VariableNotDeclared(PodRule):
    """``$(NAME)`` needs an ``env`` entry of that name."""

    id = "TW127"
    severity = "error"
    category = "launch"
    summary = "$(NAME) of a variable that the container does not declare"
    evidence = "verified"
    source = (
        "Kubernetes: a reference that cannot be resolved is left unchanged; in a shell $(NAME) runs a "
        "command called NAME"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """References that nothing resolves."""
        if subject.job.frontend not in _KINDS:
            return
        for container in subject.group.containers:
            seen: set[str] = set()
            for name, word in undeclared(container):
                if name in seen:
                    continue
                seen.add(name)
                instead = (
                    "$(JOB_COMPLETION_INDEX), which an Indexed Job sets"
                    if name in ("RANK", "NODE_RANK") and subject.job.frontend == "Job"
                    else f"an env entry called {name}"
                )
                yield self.hit(
                    word,
                    f"the container declares no variable {name}, so $({name}) stays as it is"
                    + (
                        " and the shell runs a command of that name"
                        if has_shell(container)
                        else " and the program gets the text"
                    ),
                    instead,
                    severity="warning" if subject.job.document.path.endswith((".md", ".markdown")) else None,
                )
