"""TW525: a preStop hook that the grace period cuts off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.linter.node import Node
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.shell.walk import walk_script
from trainwright.linter.shell.words import Command, inner_text
from trainwright.linter.values import Absent
from trainwright.linter.view.pods import kubernetes_word


class PreStopAboveGrace(PodRule):
    """The hook's time is part of the grace period."""

    id = "TW525"
    severity = "warning"
    category = "lifecycle"
    summary = "a preStop hook waits longer than the pod's grace period"
    evidence = "verified"
    source = "Kubernetes documentation, container lifecycle hooks: the grace period begins before preStop runs"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Sleeps of hooks against terminationGracePeriodSeconds."""
        group = subject.group
        written = group.grace_seconds
        grace = 30 if isinstance(written, Absent) else written.known
        if grace is None or group.spec.open:
            return
        for container in group.main_containers:
            hook = container.node.get("lifecycle", "preStop")
            seconds = hook.get("sleep", "seconds").integer or 0
            for command in _commands(container.node.get("lifecycle", "preStop", "exec", "command").elements()):
                if command.name == "sleep" and len(command.words) > 1:
                    seconds += _seconds(command.words[1].known)
            if seconds >= grace and seconds > 0:
                yield self.hit(
                    hook,
                    f"the hook of {container.name!r} takes {seconds} s, and the pod is killed {grace} s after it was "
                    "told to stop, hook included: SIGTERM reaches the program only with SIGKILL right behind it, and "
                    "nothing is saved",
                    f"terminationGracePeriodSeconds: {seconds + 120}, or a shorter hook",
                )


def _commands(nodes: Sequence[Node]) -> Iterator[Command]:
    words = [kubernetes_word(node, {}) for node in nodes]
    if len(words) > 2 and words[1].expanded.startswith("-") and words[1].expanded.endswith("c"):
        yield from walk_script(inner_text(words[2])).commands
    elif words:
        yield Command(tuple(words), words[0].span, {}, shell="pod")


def _seconds(text: str | None) -> int:
    units = {"s": 1, "m": 60, "h": 3600}
    if not text:
        return 0
    number, unit = (text[:-1], text[-1]) if text[-1] in units else (text, "s")
    return int(number) * units[unit] if number.isdigit() and len(number) < 7 else 0
