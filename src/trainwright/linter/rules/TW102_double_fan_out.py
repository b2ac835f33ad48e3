"""TW102: srun or mpirun starts a launcher several times per node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Absent, Known, Unknown, Value
from trainwright.linter.view.job import JobLaunch


class DoubleFanOut(LaunchRule):
    """One task per node for a launcher that starts the processes of the node itself."""

    id = "TW102"
    severity = "error"
    category = "launch"
    summary = "srun or mpirun starts a launcher more than once per node"
    evidence = "reproduced"
    source = (
        "two agents of one rendezvous on one node: surplus agents never join (PyTorch 2.15, "
        "reproduced); huggingface/nanotron#265"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Tasks per node above one under srun, slots above one under mpirun."""
        if subject.tool not in ("torchrun", "accelerate", "deepspeed"):
            return
        outer = subject.launch.of("srun") or subject.launch.of("mpirun")
        copies = subject.copies_per_node if subject.srun is not None else _mpi_copies(subject)
        if outer is None or (copies.known or 1) < 2:
            return
        each = subject.processes_per_node.known
        if subject.srun is None and (each or 0) < 2:
            return  # under MPI, accelerate launch without a count runs one process per slot
        total = (
            f"{copies.known} × {each} = {(copies.known or 0) * each} processes"
            if each
            else f"{copies.known} launchers"
        )
        starter = "srun" if subject.srun is not None else "mpirun"
        alone = "--ntasks-per-node=1" if subject.srun is not None else "-npernode 1"
        rank = "SLURM_PROCID" if subject.srun is not None else "OMPI_COMM_WORLD_RANK"
        yield self.hit(
            copies,
            f"{starter} starts {copies.known} copies of {subject.tool} on every node, and "
            f"each starts the node's processes: {total} per node; surplus launchers wait for the "
            f"rendezvous or share GPUs",
            f"{alone} with the launcher, or keep the tasks and start the script with python (RANK=${rank})",
        )


def _mpi_copies(launch: JobLaunch) -> Value[int]:
    """Copies that mpirun starts on each node: ``-npernode``, else ``-np`` over the nodes."""
    step = launch.launch.of("mpirun")
    if step is None:
        return Absent(launch.span)
    each = step.flags.number("npernode")
    if not isinstance(each, Absent):
        return each
    total, nodes = step.flags.number("np"), launch.job.nodes.known
    if isinstance(total, Known) and nodes and total.value % nodes == 0:
        return Known(total.value // nodes, total.span)
    return Unknown(launch.span)
