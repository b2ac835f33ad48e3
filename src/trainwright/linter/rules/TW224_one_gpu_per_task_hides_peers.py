"""TW224: --gpus-per-task shows each task only its own GPU."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch


class OneGpuPerTaskHidesPeers(LaunchRule):
    """Each task then sees one device, number 0."""

    id = "TW224"
    severity = "warning"
    category = "accelerators"
    summary = "--gpus-per-task shows each task only its own GPU"
    evidence = "reported"
    source = (
        "srun(1): --gpus-per-task implies --gpu-bind=per_task; NVIDIA/nccl#1066, NVIDIA/pyxis#73, "
        "Lightning-AI/pytorch-lightning#16828"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Binding that leaves each task one device."""
        slurm, step = subject.job.slurm, subject.srun
        if slurm is None or step is None or subject.tool or (subject.copies_per_node.known or 0) < 2:
            return
        flags = (step.flags, slurm.flags)
        flag = next(
            (f for f in (options.find("gpus_per_task", "ntasks_per_gpu") for options in flags) if f is not None), None
        )
        bind = next((f for f in (options.find("gpu_bind") for options in flags) if f is not None), None)
        bound = bind.value.known or "" if bind is not None and bind.value is not None else ""
        if flag is None and not bound.startswith("single"):
            return
        if bind is not None and not bound.startswith(("single", "per_task")):
            return
        local = any(
            r.name == "SLURM_LOCALID"
            for option in subject.arguments
            if option.value is not None
            for r in option.value.all_references()
        )
        yield self.hit(
            flag or bind,  # type: ignore[arg-type]
            f"each of the {subject.copies_per_node.known} tasks on a node sees only its own GPU, as cuda:0"
            + (
                "; the program selects cuda:$SLURM_LOCALID and fails on every task but the first"
                if local
                else "; code that selects cuda:<local rank> fails, and NCCL cannot use NVLink between the tasks"
            ),
            f"--gpus-per-node={subject.copies_per_node.known} instead, or --gpu-bind=none",
        )
