"""TW120: --num_processes is the count of one node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


class AccelerateProcessesPerNode(LaunchRule):
    """``--num_processes`` counts all nodes together."""

    id = "TW120"
    severity = "error"
    category = "launch"
    summary = "--num_processes is the count of one node"
    evidence = "verified"
    source = (
        "accelerate/utils/launch.py (1.15): nproc_per_node = num_processes // num_machines; "
        "huggingface/accelerate#2521"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The total against machines and accelerators."""
        if subject.tool != "accelerate" or not subject.flags.has("num_processes"):
            return
        machines, total, held = subject.nnodes.known, subject.world_size, subject.accelerators_per_node.known
        if not machines or machines < 2 or not isinstance(total, Known) or total.value < 1:
            return
        count = total.value
        if count < machines or count % machines:
            why = (
                f"--num_processes counts all {machines} machines: {count} does not divide into whole "
                f"processes per machine ({count / machines:.2g})"
            )
        elif held and count == held:
            why = (
                f"--num_processes {count} is divided over {machines} machines: each starts "
                f"{count // machines} process{'es' if count // machines > 1 else ''}, and "
                f"{held - count // machines} of its {held} GPUs idle"
            )
        else:
            return
        yield self.hit(
            total,
            why,
            f"--num_processes {machines * held}" if held else f"--num_processes {machines} × the GPUs of one machine",
        )
