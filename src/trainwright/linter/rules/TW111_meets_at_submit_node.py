"""TW111: the nodes meet at the host that submitted the job."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch

_SUBMIT = {"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SUBMIT_HOST", "SLURM_SRUN_COMM_HOST"}


class MeetsAtSubmitNode(LaunchRule):
    """The submitting host is not part of the allocation."""

    id = "TW111"
    severity = "warning"
    category = "launch"
    summary = "the nodes meet at the host that submitted the job"
    evidence = "reported"
    source = (
        "srun(1): SLURM_LAUNCH_NODE_IPADDR is the address srun was started from, SLURM_SUBMIT_HOST the "
        "host of sbatch; mlc-ai/pith-train#47"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Hosts that come from the submitting side."""
        if rendezvous.nodes_at_least_two(subject) is None:
            return
        meeting = rendezvous.host(subject)
        names = {r.name for r in meeting.word.all_references()} & _SUBMIT if meeting is not None else set()
        if meeting is not None and names:
            name = sorted(names)[0]
            yield self.hit(
                meeting.word,
                f"${name} is the host that started srun or sbatch, often a login node where no rank "
                "runs: the nodes wait for a store that nobody serves",
                'the first allocated node: HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            )
