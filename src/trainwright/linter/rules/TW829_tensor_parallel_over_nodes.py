"""TW829: tensor parallelism belongs inside one node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.hardware import generations
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.parallel import count, degrees


class TensorParallelOverNodes(LaunchRule):
    """The all-reduces of every layer should stay on NVLink."""

    id = "TW829"
    severity = "warning"
    category = "frameworks"
    summary = "tensor parallelism that spans nodes"
    evidence = "verified"
    source = (
        "NVIDIA/Megatron-LM documentation, parallelism guide: keep tensor parallelism within a node; "
        "arXiv 2104.04473, section 3.2"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Degrees above the processes of a node."""
        found = degrees(subject)
        tensor, local = count(found.tensor), subject.processes_per_node.known
        if not tensor or not local or tensor <= local or local == 1 or not subject.job.multi_node:
            return
        if any(generation.name.startswith(("GB", "B3")) for _, generation in generations(subject, project)):
            return
        yield self.hit(
            found.tensor,
            f"tensor-parallel size {tensor} spans {-(-tensor // local)} nodes of {local} processes: every layer's "
            f"all-reduces "
            f"leave NVLink for the network, which is about ten times slower",
            f"tensor-parallel size {local} or less, and pipeline or context parallelism between nodes",
        )
