"""TW138: an Accelerate file for several machines that cannot bring them together."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    ConfigRule,
    Hit,
)


class AccelerateFileAddress(ConfigRule):
    """All machines need one address and ranks of their own."""

    id = "TW138"
    severity = "error"
    category = "launch"
    summary = "an Accelerate file for several machines that cannot bring them together"
    evidence = "verified"
    source = (
        "accelerate/utils/launch.py (1.15): asserts main_process_ip and main_process_port for several "
        "machines; machine_rank counts from 0"
    )
    roles = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Address and rank of one file."""
        machines = subject.get("num_machines").integer
        if machines is None or machines < 2 or subject.node.open or subject.get("mpirun_config").exists:
            return
        address, rank = subject.get("main_process_ip"), subject.get("machine_rank")
        if address.string is not None and (
            address.string.lower() in ("localhost", "::1", "0.0.0.0") or address.string.startswith("127.")
        ):
            yield self.hit(
                address,
                f"{machines} machines meet at {address.string}, which on every machine is that machine "
                "itself: they never find each other",
                "the address of machine 0",
            )
        elif address.absent and not subject.get("deepspeed_config", "deepspeed_hostfile").exists:
            yield self.hit(
                address,
                f"{machines} machines, and no main_process_ip: Accelerate stops unless the command "
                "line gives --main_process_ip",
                "main_process_ip: the address of machine 0",
                severity="warning",
            )
        if rank.integer is not None and rank.integer >= machines:
            yield self.hit(
                rank,
                f"machine_rank {rank.integer}, but {machines} machines have the ranks 0 to "
                f"{machines - 1}: the rendezvous never completes",
                f"machine_rank: 0 … {machines - 1}",
            )
