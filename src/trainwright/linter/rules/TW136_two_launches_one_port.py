"""TW136: two launches on one node use the same port."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import JobLaunch, TrainingJob


class TwoLaunchesOnePort(JobRule):
    """One port, one store."""

    id = "TW136"
    severity = "error"
    category = "launch"
    summary = "two launches on one node use the same port"
    evidence = "verified"
    source = (
        "torch.distributed.run (2.15): the static back end binds master_port; the second launch fails with EADDRINUSE"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch", "shell")

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Explicit ports that occur twice."""
        seen: dict[str, JobLaunch] = {}
        for launch in subject.training_launches:
            if (
                "background" not in launch.launch.context
                or launch.launch.context & {"conditional", "loop", "function"}
                or launch.srun is not None
            ):
                continue
            if (launch.nnodes.known or 1) != 1 or not launch.tool or launch.group is not None:
                continue
            flag = launch.flags.find("master_port", "main_process_port")
            number = flag.value.known if flag is not None and flag.value is not None else None
            if flag is None or not number or number == "0":
                continue
            if number in seen and seen[number].launch.command is not launch.launch.command:
                yield self.hit(
                    flag,
                    f"the launch on line {seen[number].span.line} binds port {number} on the same "
                    "node: this one fails with EADDRINUSE or joins the wrong group",
                    "--standalone, or another port for each",
                )
            seen.setdefault(number, launch)
