"""TW137: a rendezvous port that cannot be bound."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.shell.words import Word
from trainwright.linter.text import PLACEHOLDER
from trainwright.linter.values import integer
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


def _is_job_id(word: Word) -> bool:
    names = [reference.name for reference in word.references]
    return (
        names in (["SLURM_JOB_ID"], ["SLURM_JOBID"])
        and word.expanded.rsplit(":", 1)[-1] == PLACEHOLDER
        and "((" not in word.written
        and "%" not in word.written
        and not word.substitutions
    )


class PortOutOfRange(LaunchRule):
    """A port lies between 1024 and 65535."""

    id = "TW137"
    severity = "error"
    category = "launch"
    summary = "a rendezvous port that cannot be bound"
    evidence = "verified"
    source = "TCP ports end at 65535; ports below 1024 need a privilege; Slurm job ids pass 65535 (MaxJobId 67043328)"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Numbers that are no usable port."""
        meeting = rendezvous.port(subject)
        if meeting is None:
            return
        text = meeting.word.expanded.rsplit(":", 1)[-1]
        number = integer(text)
        if number is not None and (number > 65535 or 0 < number < 1024):
            reason = "TCP ports end at 65535" if number > 65535 else "ports below 1024 need root"
            yield self.hit(
                meeting.word,
                f"port {number} cannot be bound: {reason}; rank 0 stops and the others wait for it",
                "a port between 20000 and 60000",
                severity=None if number > 65535 else "warning",
            )
        elif text == PLACEHOLDER and any(_is_job_id(word) for word in meeting.word.origins()):
            yield self.hit(
                meeting.word,
                "the job id is no port: ids go far beyond 65535, and then rank 0 cannot bind it",
                "$((20000 + SLURM_JOB_ID % 10000))",
                severity="warning",
            )
