"""TW135: every node starts the deepspeed launcher, which does not know of the others."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch


class DeepspeedOnEveryNode(LaunchRule):
    """The deepspeed launcher starts other nodes itself, unless told ``--no_ssh``."""

    id = "TW135"
    severity = "error"
    category = "launch"
    summary = "every node starts the deepspeed launcher, which does not know of the others"
    evidence = "verified"
    source = (
        "deepspeed/launcher/runner.py (0.19): without a hostfile it runs on localhost only, and raises "
        "when num_nodes is above 1; with one it reaches the nodes itself by ssh"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The launcher in a command that several nodes run."""
        nodes = subject.nodes.known
        if (
            subject.tool != "deepspeed"
            or not nodes
            or nodes < 2
            or subject.flags.open
            or subject.flags.has("no_ssh", "launcher")
        ):
            return
        if subject.srun is None and (
            subject.group is None or subject.group.role != "worker" or subject.job.frontend == "MPIJob"
        ):
            return
        listed = subject.flags.has("hostfile")
        yield self.hit(
            subject,
            f"all {nodes} nodes start the deepspeed launcher: "
            + (
                "each of them starts the job on every node of the hostfile"
                if listed
                else "without a hostfile each runs on its own node only, so the model is trained once per node"
            ),
            "torchrun with a rendezvous (DeepSpeed runs under it), or deepspeed --no_ssh --node_rank … "
            "--master_addr …",
        )
