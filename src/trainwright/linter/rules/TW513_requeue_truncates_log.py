"""TW513: a requeued job overwrites its log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.values import Absent
from trainwright.linter.view.job import TrainingJob


class RequeueTruncatesLog(JobRule):
    """The same job id is the same file name."""

    id = "TW513"
    severity = "warning"
    category = "lifecycle"
    summary = "a requeued job truncates its log, because --open-mode is not append"
    evidence = "verified"
    source = (
        "slurm.conf(5) of Slurm 22.05.8, JobFileAppend: by default any existing file is truncated; sbatch(1), "
        "--open-mode; NVIDIA/pyxis#129"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Jobs that Slurm or they themselves requeue."""
        if subject.slurm is None or subject.script is None:
            return
        flags = subject.slurm.flags
        mode = flags.text("open_mode")
        if not isinstance(mode, Absent) and mode.known not in ("truncate", "t"):
            return
        asked = flags.find("requeue")
        own = next(
            (c for c in subject.script.plain.commands if c.name == "scontrol" and c.has("requeue", "requeuehold")),
            None,
        )
        trap = next(
            (
                c
                for c in subject.script.plain.commands
                if c.name == "trap" and any("scontrol requeue" in word.expanded for word in c.words)
            ),
            None,
        )
        where = asked or own or trap
        if where is None:
            return
        name = flags.text("output").known or "slurm-%j.out"
        yield self.hit(
            where,
            f"after a requeue the job has the same id and writes to the same file ({name}), which Slurm "
            "truncates: the "
            "log that says why it was stopped is gone",
            "#SBATCH --open-mode=append",
        )
