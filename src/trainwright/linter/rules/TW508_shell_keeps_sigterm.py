"""TW508: the shell that starts the program does not pass SIGTERM on."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.nodepools import on_spot
from trainwright.linter.view.saving import after, replaces_shell, saves, shell_script, signal_flag, trap_of


class ShellKeepsSigterm(LaunchRule):
    """PID 1 gets the signal, and a shell does not forward it."""

    id = "TW508"
    severity = "warning"
    category = "lifecycle"
    summary = "SIGTERM reaches a shell, not the program that would save"
    evidence = "reported"
    source = (
        "petuum/adaptdl#105; skypilot-org/skypilot#5041; bash manual, Signals: a trap runs after the "
        "foreground command"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Launches behind a shell in pods that are expected to be stopped."""
        container, group = subject.container, subject.group
        if (
            container is None
            or group is None
            or replaces_shell(subject)
            or (subject.launch.launcher is not None and (subject.tool == "mpirun"))
        ):
            return
        script = shell_script(container)
        if script is None:
            return
        asked = signal_flag(subject.arguments)
        spot = on_spot(subject.job, group, project)
        patient = (group.grace_seconds.known or 0) > 30
        if asked is None and not (spot is not None and saves(subject.arguments)) and not patient:
            return
        behind = after(script.commands, subject.launch.span)
        trap = trap_of(script.commands, "TERM")
        waits = "background" in subject.launch.context and any(c.name == "wait" for c in behind)
        if trap is not None and waits:
            return
        # A shell replaces itself with the last command of a -c string; a file of commands stays.
        if trap is None and not behind and container.script is not None and not subject.launch.context:
            return
        because = (
            f"{asked.word.expanded} waits for a signal that never comes"
            if asked is not None
            else "a spot interruption is announced by SIGTERM"
            if spot is not None
            else f"the pod is given {group.grace_seconds.known} s to end"
        )
        reason = (
            "bash runs its trap only after the foreground command has ended"
            if trap is not None
            else "the shell is process 1 and does not pass SIGTERM to the program it started"
        )
        yield self.hit(
            subject.launch.program,
            f"{reason}, and {because}: the program is killed at the end of the grace period without saving",
            "exec the program as the last command of the shell, or start it with & and "
            "trap 'kill -TERM $pid' TERM; wait $pid; wait $pid",
        )
