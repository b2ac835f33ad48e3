"""TW119: num_processes of an Accelerate file does not fit its machines."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.documents import ConfigDocument
from trainwright.linter.project import Project
from trainwright.linter.rule import (
    ConfigRule,
    Hit,
)


class AccelerateFileProcesses(ConfigRule):
    """``num_processes`` counts all machines together."""

    id = "TW119"
    severity = "error"
    category = "launch"
    summary = "num_processes of an Accelerate file does not fit its machines"
    evidence = "verified"
    source = (
        "accelerate/utils/launch.py (1.15): nproc_per_node = num_processes // num_machines; "
        "huggingface/accelerate#2818"
    )
    roles = ("accelerate",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """Two numbers of one file."""
        machines, total = subject.get("num_machines").integer, subject.get("num_processes")
        count = total.integer
        kind = subject.get("distributed_type")
        if kind.string == "NO" and count is not None and count > 1 and not subject.get("use_cpu").boolean:
            yield self.hit(
                kind,
                f"distributed_type is NO, so Accelerate starts one process whatever num_processes ({count}) says: "
                "the other accelerators idle, and each step sees one process's batch",
                "distributed_type: MULTI_GPU (or FSDP, DEEPSPEED)",
                "warning",  # --multi_gpu on the command line still overrides it.
            )
        if machines is None or count is None or machines < 2 or count < 1:
            return
        if count < machines:
            yield self.hit(
                total,
                f"num_processes is the total over all machines: {count} "
                f"process{'es' if count > 1 else ''} on {machines} machines is {count // machines} on "
                "each, so nothing starts or the rendezvous fails",
                f"num_processes: {machines} × the GPUs of one machine ({machines * 8} for 8 GPUs each)",
            )
        elif count % machines:
            yield self.hit(
                total,
                f"{count} processes do not divide over {machines} machines: Accelerate starts "
                f"{count // machines} on each, and the world is {count // machines * machines}",
                f"a multiple of {machines}: machines × the GPUs of one machine",
                "warning",  # It runs, with fewer processes than written.
            )
