"""TW920: a token or password written into a manifest or script."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ProjectRule
from trainwright.linter.shell.words import Variable
from trainwright.linter.text import Span

_NAME = re.compile(r"(^|_)(TOKEN|API_?KEY|SECRET|PASSWORD|PASSWD|ACCESS_KEY|ACCESS_KEY_ID|SECRET_KEY|PRIVATE_KEY)$")
_LIVE = re.compile(
    r"\b(hf_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,}|sk-[A-Za-z0-9_-]{32,}"
    r"|glpat-[\w-]{20,}|nvapi-[\w-]{40,}|xox[bp]-[\w-]{20,})"
)
_PLACEHOLDER = re.compile(
    r"[<>$*{}]|x{3,}|your|example|change|replace|dummy|fake|redacted|placeholder|todo|\.\.\.|^(none|null|true|false|test"
    r"|secret|token|password|key)$|^/|^\d{1,5}$",
    re.IGNORECASE,
)


class SecretInPlainText(ProjectRule):
    """What is in a file is in every copy, log and object of it."""

    id = "TW920"
    severity = "warning"
    category = "security"
    summary = "a secret is written in plain text"
    evidence = "verified"
    source = (
        "Kubernetes documentation, Secrets (secretKeyRef); token formats published by Hugging Face, AWS, "
        "GitHub, GitLab"
    )

    def check(self, subject: Project, project: Project) -> Iterator[Hit]:
        """Environment of containers, variables of scripts, words of commands."""
        seen: set[tuple[str, int, int]] = set()
        for variable in self._variables(project):
            value = variable.value.known
            if value is None or variable.place is None or variable.origin not in ("kubernetes", "script"):
                continue
            live = self._live(value)
            if not live and (not _NAME.search(variable.name) or len(value) < 8 or _PLACEHOLDER.search(value)):
                continue
            key = (variable.place.path, *variable.place.extent[:2])
            if key not in seen:
                seen.add(key)
                yield self._hit(variable.place, variable.name, live)
        for document in project.scripts:
            for command in document.plain.commands:
                for word in command.words:
                    key = (word.span.path, *word.span.extent[:2])
                    if self._live(word.written) and key not in seen:
                        seen.add(key)
                        yield self._hit(word.span, "this word", True)

    def _variables(self, project: Project) -> Iterator[Variable]:
        for job in project.jobs:
            for container in job.containers():
                yield from container.env.values()
        for document in project.scripts:
            yield from document.plain.variables.values()

    def _live(self, value: str) -> bool:
        match = _LIVE.search(value)
        return match is not None and len(set(match[0])) > 10 and "EXAMPLE" not in match[0].upper()

    def _hit(self, place: Span, name: str, live: bool) -> Hit:
        return self.hit(
            place,
            f"{name} holds a secret in plain text: everybody who can read the file, the object or its history has it"
            + (", and it has the form of a live token, so revoke it" if live else ""),
            "env: [{name: …, valueFrom: {secretKeyRef: {name: …, key: …}}}], or a file that only the job's "
            "user can read",
            "error" if live else "warning",
        )
