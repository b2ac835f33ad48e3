"""TW519: the script ends while the training has just begun."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import after, commands_of


class StartedInBackground(LaunchRule):
    """``&`` without ``wait``."""

    id = "TW519"
    severity = "error"
    category = "lifecycle"
    summary = "training is started in the background and nothing waits for it"
    evidence = "reproduced"
    source = (
        "unshare --fork --pid bash -c '(sleep 1; touch alive) & echo end' (bash 5.2): the shell ends at once with "
        "0, and the kernel kills the rest of the process namespace"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Batch scripts, and shells that are the first process of a container."""
        if "background" not in subject.launch.context:
            return
        if subject.container is None and subject.job.frontend != "sbatch":
            return
        commands = commands_of(subject.job, subject)
        behind = after(commands, subject.launch.span)
        quick = ("echo", "date", "printf", "export", "true", "set", "pid", "unset", "mkdir")
        if not commands or any(c.name not in quick for c in behind) or "function" in subject.launch.context:
            return
        # The same launch stands in several commands when a function or here-document is followed.
        if any(c.name == "wait" for c in commands):
            return
        yield self.hit(
            subject.launch.program,
            "the script starts it with & and ends: the job, or the container, is over at once, and the "
            "training is killed "
            "with it",
            "wait as the last command, or no &",
            # A file that is read with `source` may wait.
            "warning" if any(c.name in ("source", ".") for c in commands) else None,
        )
