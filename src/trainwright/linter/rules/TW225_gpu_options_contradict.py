"""TW225: two GPU options of one job say different numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.shell.flags import Flag
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.slurm import gpu_count


class GpuOptionsContradict(JobRule):
    """One option is enough."""

    id = "TW225"
    severity = "warning"
    category = "accelerators"
    summary = "two GPU options of one job say different numbers"
    evidence = "verified"
    source = "sbatch(1): --gpus, --gpus-per-node, --gpus-per-task and --gres are separate requests that must agree"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Numbers per node of each option."""
        slurm = subject.slurm
        if slurm is None:
            return
        nodes = slurm.nodes.known
        found: list[tuple[int, Flag]] = []
        for name, share in (("gpus_per_node", 1), ("gres", 1), ("gpus", nodes)):
            flag = slurm.flags.find(name)
            count = gpu_count(flag, gres=name == "gres").known if flag is not None else None
            if flag is not None and count is not None and share:
                found.append((count if name != "gpus" else count // share if count % share == 0 else -1, flag))
        if len({count for count, _ in found}) > 1:
            said = " and ".join(flag.span.quoted for _, flag in found)
            yield self.hit(
                found[-1][1],
                f"{said} ask for different numbers of GPUs per node"
                + (f" on {nodes} nodes (--gpus counts the whole job)" if slurm.flags.has("gpus") else ""),
                "--gpus-per-node alone",
            )
