"""TW108: every node is given the same node rank."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class SameNodeRankEverywhere(LaunchRule):
    """A static rendezvous needs a different rank on every node."""

    id = "TW108"
    severity = "error"
    category = "launch"
    summary = "every node is given the same node rank"
    evidence = "reproduced"
    source = (
        "two agents with node_rank 0 of a static rendezvous (PyTorch 2.15, reproduced: both bind the store "
        "or wait); huggingface/accelerate#2265; NVIDIA/nvidia-resiliency-ext#142"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Constant ranks in commands that run on several nodes."""
        nodes, rank = rendezvous.nodes_at_least_two(subject), rendezvous.node_rank(subject)
        if nodes is None or not isinstance(rank, Known) or not rendezvous.is_static(subject):
            return
        copies = (
            subject.group.count.known if subject.group is not None else nodes if subject.srun is not None else None
        )
        if not rank.value.strip().isdigit():
            return
        if copies == 1 and subject.group is not None:
            copies = self._twins(subject, rank.value)
        if copies is None or copies < 2:
            return
        variable = (
            "$SLURM_NODEID, expanded by each task: srun bash -c '… $SLURM_NODEID …'"
            if subject.group is None
            else "the pod's index ($JOB_COMPLETION_INDEX or what your operator sets)"
        )
        name = "machine_rank" if subject.tool == "accelerate" else "node_rank"
        yield self.hit(
            rank,
            f"{copies} nodes run this command, and all are told {name} {rank.value}: a static "
            f"rendezvous never completes with {copies} equal ranks",
            f"{variable}; or --rdzv_backend=c10d, which assigns ranks itself",
        )

    def _twins(self, subject: JobLaunch, rank: str) -> int | None:
        """Pods of all worker groups (Master and Worker) that are told this rank, counted at the last of them."""
        twins = []
        for other in subject.job.training_launches:
            stated = rendezvous.node_rank(other)
            if other.group is not None and other.group.role == "worker" and stated.known == rank:
                twins.append(other)
        counts = [other.group.count.known for other in twins if other.group is not None]
        if len({id(other.group) for other in twins}) < 2 or twins[-1] is not subject or None in counts:
            return None
        return sum(count for count in counts if count is not None)
