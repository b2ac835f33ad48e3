"""TW333: Open MPI is left to choose how the ranks talk on nodes with EFA."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.network import uses_efa

_CHOOSES = ("pml", "btl", "mtl", "btl_tcp_if_include", "btl_tcp_if_exclude")


class MpirunTransportOpen(LaunchRule):
    """NCCL moves the data; MPI should only start the processes."""

    id = "TW333"
    severity = "note"
    category = "network"
    summary = "mpirun chooses its own transport between nodes with EFA"
    evidence = "reported"
    source = (
        "aws-samples/awsome-distributed-training micro-benchmarks/nccl-tests/kubernetes: --mca pml ^ucx, --mca btl "
        "tcp,self, --mca btl_tcp_if_exclude lo,docker0,…"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """mpirun of MPIJobs whose workers have EFA."""
        if subject.tool != "mpirun" or subject.group is None or not subject.job.multi_node or subject.flags.open:
            return
        if not uses_efa(subject.job) or subject.launch.of("torchrun", "accelerate", "deepspeed") is not None:
            return
        if any(subject.flags.has(f"{option}:{name}") for option in ("mca", "gmca") for name in _CHOOSES):
            return
        if any(subject.env(f"OMPI_MCA_{name}") is not None for name in _CHOOSES) or subject.flags.has(
            "genv", "iface"
        ):
            return
        yield self.hit(
            subject,
            "Open MPI picks its transport itself: with UCX or libfabric in the image it may try EFA, which NCCL "
            "holds, "
            "or a bridge of the container runtime, and the ranks fail or hang in MPI_Init before NCCL is reached",
            "--mca pml ^ucx --mca btl tcp,self --mca btl_tcp_if_include eth0",
        )
