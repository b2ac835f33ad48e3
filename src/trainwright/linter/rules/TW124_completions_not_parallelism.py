"""TW124: a gang in a Job whose completions are not its parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class CompletionsNotParallelism(LaunchRule):
    """All ranks must run at the same time."""

    id = "TW124"
    severity = "error"
    category = "launch"
    summary = "a gang in a Job whose completions are not its parallelism"
    evidence = "verified"
    source = "kubernetes/api batch/v1 JobSpec: at most min(parallelism, remaining completions) pods run at a time"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Two numbers of one Job spec."""
        if (
            subject.group is None
            or subject.job.frontend not in ("Job", "JobSet")
            or rendezvous.nodes_at_least_two(subject) is None
            or not subject.tool
        ):
            return
        spec = (
            subject.group.entry.get("spec")
            if subject.job.frontend == "Job"
            else subject.group.entry.get("template", "spec")
        )
        completions, pods = spec.get("completions"), spec.get("parallelism").integer
        if completions.integer is None or pods is None or completions.integer == pods or completions.integer < 1:
            return
        more = completions.integer > pods
        yield self.hit(
            completions,
            f"{pods} pods form one gang, but completions is {completions.integer}: "
            + (
                f"the other {completions.integer - pods} start when the first have finished, alone, and wait forever"
                if more
                else f"only {completions.integer} start, and wait for the rest"
            ),
            f"completions: {pods}",
            fix=[completions.span.edit(str(pods))] if completions.plain else (),
        )
