"""TW152: torchrun --standalone together with several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch


class StandaloneOverNodes(LaunchRule):
    """``--standalone`` is a rendezvous with oneself."""

    id = "TW152"
    severity = "error"
    category = "launch"
    summary = "torchrun --standalone is told to wait for several nodes"
    evidence = "verified"
    source = (
        "torch/distributed/run.py (2.15): --standalone sets rdzv_backend c10d, rdzv_endpoint localhost:0 and an "
        "id of its own, and leaves --nnodes as it is"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Both options on one command line."""
        if subject.tool != "torchrun" or not subject.flags.switch("standalone").known:
            return
        nodes = subject.flags.number("nnodes").known
        if nodes is not None and nodes > 1:
            flag = subject.flags.find("standalone")
            yield self.hit(
                flag if flag is not None else subject,
                f"--standalone makes each node meet at localhost, and --nnodes={nodes} makes it wait for {nodes} "
                "nodes there: every one waits for itself until the rendezvous times out",
                "--rdzv_backend=c10d --rdzv_endpoint=<first node>:29500 --rdzv_id=<job> instead of --standalone",
            )
