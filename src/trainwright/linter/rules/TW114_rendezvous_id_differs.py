"""TW114: every node makes up its own rendezvous id."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch

_DIFFERS = {
    "RANDOM",
    "SRANDOM",
    "BASHPID",
    "EPOCHSECONDS",
    "HOSTNAME",
    "SLURMD_NODENAME",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "uuidgen",
    "date",
    "hostname",
    "shuf",
    "mktemp",
}


class RendezvousIdDiffers(LaunchRule):
    """Nodes with different ids wait in different rooms."""

    id = "TW114"
    severity = "error"
    category = "launch"
    summary = "every node makes up its own rendezvous id"
    evidence = "reproduced"
    source = "two agents with the same endpoint and different --rdzv_id (PyTorch 2.15): neither starts"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Ids from a source that differs between tasks."""
        nodes, flag = rendezvous.nodes_at_least_two(subject), subject.flags.find("rdzv_id")
        if nodes is None or flag is None or flag.value is None:
            return
        for found in rendezvous.by_each_task(rendezvous.Meeting("--rdzv_id", flag.value)):
            if found.name in _DIFFERS:
                yield self.hit(
                    flag,
                    f"each of the {nodes} nodes evaluates {found.name} for itself, so each waits under "
                    "another --rdzv_id: the group never fills up",
                    "--rdzv_id=$SLURM_JOB_ID (the same on every node)"
                    if subject.group is None
                    else "--rdzv_id with the job's name",
                    "warning"
                    if found.name == "date"
                    else None,  # A date without seconds is mostly the same everywhere.
                )
                return
