"""TW512: the batch shell is signalled and has no trap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.shell.words import Command
from trainwright.linter.view.job import JobLaunch, TrainingJob
from trainwright.linter.view.saving import trap_of

_ENVIRONMENT = re.compile(
    r"(/activate|(conda|mamba)\.sh|/\.?bashrc|/(etc|init)/(profile|bash|modules\.sh))$|conda.*shell.*hook"
)


def _environment_only(command: Command) -> bool:
    """Whether a sourced file is known to set variables and functions only (a virtual environment, conda, modules)."""
    return any(_ENVIRONMENT.search(word.expanded) for word in command.words[1:])


class BatchSignalWithoutTrap(JobRule):
    """The default action of most signals is death."""

    id = "TW512"
    severity = "warning"
    category = "lifecycle"
    summary = "--signal=B: signals the batch shell, which has no trap or cannot run it"
    evidence = "reproduced"
    source = (
        "bash 5.2: kill -USR1 of a script without a trap ends it with 138; with a trap and sleep 2 in the foreground "
        "the trap runs after 2 s, with sleep 2 & wait at once; sbatch(1) of Slurm 22.05.8, --signal"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Scripts with ``B:``."""
        script, slurm = subject.script, subject.slurm
        flag = slurm.flags.find("signal") if slurm is not None else None
        if script is None or flag is None or flag.value is None or flag.value.known is None:
            return
        target, colon, rest = flag.value.known.partition(":")
        signal = rest.split("@")[0].upper().removeprefix("SIG")
        commands = script.plain.commands
        if not colon or "B" not in target or not signal or signal.isdigit():
            return
        if any(command.name in ("source", ".", "eval") and not _environment_only(command) for command in commands):
            return
        launches = [launch for launch in subject.launches if launch.tool or launch.launch.is_python or launch.srun]
        if not launches or any("exec" in self._wrappers(launch) for launch in launches):
            return
        trap = trap_of(commands, signal)
        if trap is None:
            yield self.hit(
                flag,
                f"the batch shell gets SIG{signal} and has no trap for it, so it dies, and Slurm ends the job "
                "at once "
                "without a checkpoint",
                f"trap 'kill -{signal} $pid' {signal} with the program in the background and wait, or "
                f"--signal={rest} "
                "with srun, which signals the program itself",
            )
        elif all("background" not in launch.launch.context for launch in launches):
            yield self.hit(
                trap,
                f"bash runs this trap only when the foreground command has ended, and "
                f"{launches[-1].launch.script or 'it'}"
                " runs in the foreground: the time limit comes first",
                "start the program with & and then wait, so that the trap runs at once",
            )

    def _wrappers(self, launch: JobLaunch) -> list[str | None]:
        return [step.name.known for step in launch.launch.chain if step.tool == "wrapper"]
