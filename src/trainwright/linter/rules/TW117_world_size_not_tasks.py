"""TW117: the program is told another world size than is started."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
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
