"""TW223: training starts, but the job asks for no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.values import Absent
from trainwright.linter.view.job import TrainingJob

_ASKS = (
    "gpus",
    "gpus_per_node",
    "gpus_per_task",
    "gpus_per_socket",
    "tres_per_task",
    "ntasks_per_gpu",
    "mem_per_gpu",
    "cpus_per_gpu",
    "whole",
)


class NoGpuRequested(JobRule):
    """On most clusters GPUs must be asked for."""

    id = "TW223"
    severity = "warning"
    category = "accelerators"
    summary = "training starts, but the job asks for no GPU"
    evidence = "reported"
    source = "sbatch(1): GPUs are allocated only on request; BLAST-AI-ML/synapse#199, 3dem/model-angelo#60"
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Launchers in allocations without GPUs."""
        slurm = subject.slurm
        if (
            slurm is None
            or not slurm.flags.used
            or slurm.exclusive
            or slurm.flags.has(*_ASKS)
            or not isinstance(slurm.gpus_per_node, Absent)
        ):
            return
        launches = [
            launch for launch in subject.training_launches if launch.tool in ("torchrun", "accelerate", "deepspeed")
        ]
        if not launches or any(
            launch.arguments.has("cpu", "use_cpu", "no_cuda", "use_cpu_only")
            or launch.flags.has("cpu")
            or launch.arguments.text("backend", "ddp_backend").known == "gloo"
            or (launch.srun is not None and launch.srun.flags.has("gres", "exclusive", *_ASKS))
            for launch in launches
        ):
            return
        count = launches[0].processes_per_node.known
        if count == 1:
            return
        place = " ".join(slurm.flags.text(name).known or "" for name in ("partition", "constraint", "qos")).lower()
        named = any(
            part in place
            for part in ("gpu", "a100", "h100", "h200", "b200", "v100", "p4d", "p5", "dgx", "cuda", "boost")
        )
        yield self.hit(
            launches[0],
            "no --gres, --gpus or --gpus-per-node: Slurm gives the job no GPU, so the program finds "
            "none, or trains on CPUs without a word",
            f"#SBATCH --gpus-per-node={count or 8}",
            severity="note" if named else None,
        )
