"""TW511: the warning signal of Slurm goes to job steps, and the program is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class SlurmSignalMissesProgram(JobRule):
    """Without ``B:`` only steps started by srun are signalled."""

    id = "TW511"
    severity = "warning"
    category = "lifecycle"
    summary = "--signal reaches only what srun started, and the program is started without srun"
    evidence = "verified"
    source = (
        "sbatch(1) of Slurm 22.05.8, --signal: by default all job steps are signalled, but not the batch shell "
        "itself; martius-lab/cluster_utils#64"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Python programs and launchers that the batch shell starts itself."""
        flag = subject.slurm.flags.find("signal") if subject.slurm is not None else None
        if flag is None or flag.value is None or flag.value.known is None:
            return
        if "B" in flag.value.known.split(":")[0] and ":" in flag.value.known:
            return
        programs = [launch for launch in subject.launches if launch.launch.is_python and launch.tool != "mpirun"]
        if not programs or any(launch.srun is not None for launch in subject.launches):
            return
        program = programs[-1]
        signal = flag.value.known.split("@")[0]
        yield self.hit(
            flag,
            f"SIG{signal.removeprefix('SIG')} is sent to the job's steps, but "
            f"{program.launch.script or 'the program'} "
            "is started by the batch shell and belongs to none: it never gets the signal and is killed at "
            "the time limit",
            f"srun {(program.launch.script and 'python ' + program.launch.script) or 'before the program'}, or "
            f"--signal=B:{flag.value.known} and a trap that forwards the signal",
        )
