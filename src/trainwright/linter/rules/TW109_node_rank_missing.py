"""TW109: a static rendezvous over several nodes without node ranks."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Absent
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class NodeRankMissing(LaunchRule):
    """``--rdzv_endpoint`` alone does not switch to c10d."""

    id = "TW109"
    severity = "error"
    category = "launch"
    summary = "a static rendezvous over several nodes without node ranks"
    evidence = "reproduced"
    source = (
        "torch.distributed.run (PyTorch 2.15): node_rank defaults to 0, and rdzv_backend to static even "
        "when --rdzv_endpoint is given"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Static rendezvous whose rank nobody sets."""
        nodes = rendezvous.nodes_at_least_two(subject)
        if (
            nodes is None
            or subject.flags.open
            or not rendezvous.is_static(subject)
            or rendezvous.host(subject) is None
        ):
            return
        copies = (
            subject.group.count.known if subject.group is not None else nodes if subject.srun is not None else None
        )
        # By hand the same command is started once on every node.
        by_hand = copies is None and subject.job.frontend == "shell" and not subject.launch.context & {"loop"}
        if (not by_hand and (copies is None or copies < 2)) or not isinstance(rendezvous.node_rank(subject), Absent):
            return
        if subject.tool == "deepspeed" or (
            subject.tool == "accelerate" and subject.config is not None and subject.config.node.open
        ):
            return
        option = "machine_rank" if subject.tool == "accelerate" else "node_rank"
        yield self.hit(
            rendezvous.host(subject).word,  # type: ignore[union-attr]
            f"the rendezvous is static (the default), and no --{option} is given: each of the {nodes} "
            "nodes takes rank 0 and waits for the others",
            f"--rdzv_backend=c10d, which assigns ranks; or --{option} with each node's own index",
            severity="warning" if by_hand else None,
        )
