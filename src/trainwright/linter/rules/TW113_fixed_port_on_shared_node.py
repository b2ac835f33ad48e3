"""TW113: a fixed port on a node that other jobs may share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class FixedPortOnSharedNode(LaunchRule):
    """Two jobs on one node cannot bind one port."""

    id = "TW113"
    severity = "warning"
    category = "launch"
    summary = "a fixed port on a node that other jobs may share"
    evidence = "reported"
    source = (
        "torch.distributed.run: static rendezvous binds master_port (29500); m2lines/Samudra#805, "
        "wenet-e2e/wespeaker#171"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Literal ports in jobs that hold part of a node."""
        slurm = subject.job.slurm
        if slurm is None or slurm.exclusive or slurm.node_count.known != 1 or (slurm.gpus_per_node.known or 8) >= 8:
            return
        if subject.flags.has("standalone") or subject.tool not in ("torchrun", "accelerate", "deepspeed", ""):
            return
        meeting = rendezvous.port(subject)
        number = None if meeting is None else meeting.word.known
        if meeting is None or number is None:
            return
        found = re.search(r"(\d{2,5})$", number)
        if found and found[1] != "0":
            yield self.hit(
                meeting.word,
                f"this job shares its node ({slurm.gpus_per_node.known} GPUs, not exclusive) and binds "
                f"port {found[1]}: another job that does the same makes one of them fail (EADDRINUSE) "
                "or join the wrong group",
                "--standalone, or a port from the job id: $((20000 + SLURM_JOB_ID % 10000))",
            )
