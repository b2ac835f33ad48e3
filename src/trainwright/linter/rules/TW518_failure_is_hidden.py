"""TW518: the container succeeds whatever the training does."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.shell.words import Command
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import after, commands_of, strict_shell


class FailureIsHidden(LaunchRule):
    """A shell's status is that of its last command."""

    id = "TW518"
    severity = "warning"
    category = "lifecycle"
    summary = "the shell around the training returns success when the training fails"
    evidence = "verified"
    source = "POSIX shell: exit status of a list is that of its last command, of a pipeline that of its last part"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Shells of containers; pipelines of batch scripts as well."""
        commands = commands_of(subject.job, subject)
        container = subject.container
        if not commands or not subject.job.ends or "background" in subject.launch.context:
            return
        if container is None and subject.job.frontend != "sbatch":
            return
        if any(r.name in ("PIPESTATUS", "?") for c in commands for word in c.words for r in word.references):
            return
        behind = after(commands, subject.launch.span)
        if "pipeline" in subject.launch.context:
            last = next((c for c in behind if c.name == "tee"), None)
            if last is not None and not strict_shell(container, commands, "pipefail"):
                yield self.hit(
                    last,
                    "the status of a pipeline is that of tee, which always succeeds: a crashed training ends "
                    "as success, "
                    "and no retry, requeue or alert follows",
                    "set -o pipefail (in bash), or write the log with the launcher's own option",
                    "warning",
                )
            return
        if container is None:
            return
        excuse = behind[0] if len(behind) == 1 and "guarded" in behind[0].context else None
        if excuse is not None and excuse.name in ("true", ":", "echo") and self._is_alternative(subject, excuse):
            yield self.hit(
                excuse,
                f"|| {excuse.name} turns every failure of the training into success: the job is Complete and is not "
                "retried, whatever happened",
                "nothing behind the training, or an exit with its status",
            )
            return
        if strict_shell(container, commands, "errexit", "e"):
            return
        last = behind[-1] if behind else None
        plain = not any("guarded" in c.context or "conditional" in c.context for c in behind)
        if (
            last is not None
            and plain
            and last.name in ("echo", "true", "exit", "date", "printf")
            and not last.context
        ):
            if last.name == "exit" and (len(last.words) < 2 or last.words[1].known != "0"):
                return
            yield self.hit(
                last,
                f"the container's status is that of {last.name}, the last command, not of the training: a "
                "crash counts "
                "as success, the job is Complete and is not retried",
                "set -e as the first command, or the training as the last one (with exec)",
            )

    def _is_alternative(self, subject: JobLaunch, command: Command) -> bool:
        """Whether ``||`` stands between the training and a command (``&&`` makes the other kind of guard)."""
        first = subject.launch.span
        text = command.span.text.content
        return text == first.text.content and text[first.end : command.span.start].strip() == "||"
