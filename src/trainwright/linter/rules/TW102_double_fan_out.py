"""TW102: srun starts a launcher several times per node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch


class DoubleFanOut(LaunchRule):
    """One task per node for a launcher that starts the processes of the node itself."""

    id = "TW102"
    severity = "error"
    category = "launch"
    summary = "srun starts a launcher more than once per node"
    evidence = "reproduced"
    source = (
        "two agents of one rendezvous on one node: surplus agents never join (PyTorch 2.15, "
        "reproduced); huggingface/nanotron#265"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Tasks per node above one under srun."""
        copies = subject.copies_per_node
        if (
            subject.srun is None
            or subject.tool not in ("torchrun", "accelerate", "deepspeed")
            or (copies.known or 1) < 2
        ):
            return
        each = subject.processes_per_node.known
        total = (
            f"{copies.known} × {each} = {(copies.known or 0) * each} processes"
            if each
            else f"{copies.known} launchers"
        )
        yield self.hit(
            copies,
            f"srun starts {copies.known} copies of {subject.tool} on every node, and "
            f"each starts the node's processes: {total} per node; surplus launchers wait for the "
            f"rendezvous or share GPUs",
            "--ntasks-per-node=1 with the launcher, or keep the tasks and start the script "
            "with python (RANK=$SLURM_PROCID)",
        )
