"""TW134: the node rank comes from a variable that is the same on every node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch

_SAME = {
    "SLURM_LOCALID": "counts tasks within a node and is 0 for the first of each",
    "LOCAL_RANK": "counts processes within a node",
    "SLURM_ARRAY_TASK_ID": "is one number for the whole job",
    "SLURM_NNODES": "is the number of nodes",
    "SLURM_JOB_NUM_NODES": "is the number of nodes",
}


class NodeRankFromWrongVariable(LaunchRule):
    """``SLURM_LOCALID`` is 0 on every node when each has one task."""

    id = "TW134"
    severity = "error"
    category = "launch"
    summary = "the node rank comes from a variable that is the same on every node"
    evidence = "verified"
    source = (
        "srun(1): SLURM_LOCALID counts within a node and is 0 for its first task; SLURM_ARRAY_TASK_ID is "
        "one number per job"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """References that do not tell nodes apart."""
        flag = subject.flags.find("node_rank", "machine_rank")
        if (
            flag is None
            or flag.value is None
            or rendezvous.nodes_at_least_two(subject) is None
            or not rendezvous.is_static(subject)
        ):
            return
        for reference in flag.value.references:
            if reference.name in _SAME:
                yield self.hit(
                    flag,
                    f"${reference.name} {_SAME[reference.name]}, so all nodes get the same rank and "
                    "the rendezvous never completes",
                    "$SLURM_NODEID, expanded by each task" if subject.job.slurm is not None else "the pod's index",
                )
                return
