"""TW117: the program is told another world size than is started."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known, integer
from trainwright.linter.view.job import JobLaunch


class WorldSizeNotTasks(LaunchRule):
    """The world is what the launcher starts."""

    id = "TW117"
    severity = "error"
    category = "launch"
    summary = "the program is told another world size than is started"
    evidence = "reported"
    source = "init_process_group waits for world_size ranks (or refuses ranks above it); facebookresearch/ParlAI#3084"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """A number that can only be right when it is the number of processes."""
        yield from self._by_environment(subject)
        told = subject.arguments.number("distributed_world_size", "dist_world_size", "world_size")
        started = subject.world_size.known
        if not isinstance(told, Known) or not started or told.value == started or told.value < 1:
            return
        if subject.arguments.has("multiprocessing_distributed") or (not subject.tool and subject.srun is None):
            return
        if not subject.tool and started == 1:
            return
        yield self.hit(
            told,
            f"{started} processes start, but the program is told a world of {told.value}: it "
            + (
                "waits for ranks that do not exist"
                if told.value > started
                else f"refuses ranks from {told.value} on, and the others wait for them"
            ),
            f"{started}, or $SLURM_NTASKS"
            if subject.srun is not None
            else f"{started}, or the launcher's WORLD_SIZE",
            severity="warning"
            if subject.tool or (told.value == subject.nodes.known and subject.arguments.has("world_size"))
            else None,
        )

    def _by_environment(self, subject: JobLaunch) -> Iterator[Hit]:
        """``WORLD_SIZE`` of programs that srun starts once per rank; a launcher would set it itself."""
        variable, started = subject.env("WORLD_SIZE"), subject.world_size.known
        told = integer(variable.value.known or "") if variable is not None else None
        if variable is None or variable.place is None or variable.origin in ("operator", "slurm") or told is None:
            return
        several = (subject.copies_per_node.known or 0) > 1
        if subject.tool or subject.srun is None or not several or not started or told == started or told < 1:
            return
        yield self.hit(
            variable,
            f"srun starts {started} processes, but WORLD_SIZE is {told}"
            + (", the number of nodes" if told == subject.nodes.known else "")
            + f": ranks from {told} on are refused, and the others wait for them"
            if told < started
            else f"srun starts {started} processes, but WORLD_SIZE is {told}: they wait for ranks that do not exist",
            f"WORLD_SIZE=$SLURM_NTASKS ({started})",
        )
