"""TW106: several nodes are started, and none is told where to meet."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Absent, Unknown
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class NoMeetingPoint(LaunchRule):
    """Without an address the launchers' default is this machine."""

    id = "TW106"
    severity = "error"
    category = "launch"
    summary = "several nodes are started, and none is told where to meet"
    evidence = "reproduced"
    source = (
        "torch.distributed.run (PyTorch 2.15): master_addr defaults to 127.0.0.1, a c10d endpoint to "
        "localhost:29400; accelerate/utils/launch.py (1.15) asserts main_process_ip"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Launches over several nodes without any address."""
        nodes = rendezvous.nodes_at_least_two(subject)
        if (
            nodes is None
            or subject.flags.open
            or subject.flags.has("standalone")
            or rendezvous.host(subject) is not None
        ):
            return
        if subject.tool == "torchrun":
            backend = subject.rendezvous_backend
            names = ("rdzv_endpoint", "master_addr") if backend == "static" else ("rdzv_endpoint",)
            if backend is None or any(not isinstance(subject.setting(name), Absent) for name in names):
                return
            if backend == "static":
                why = (
                    f"{nodes} nodes start torchrun without --rdzv_endpoint or --master_addr: each waits at "
                    "127.0.0.1 for the others, printing nothing"
                )
            else:
                why = (
                    f"--rdzv_backend={backend} reads only --rdzv_endpoint, and there is none: each of the "
                    f"{nodes} nodes waits for the others at its own localhost:29400"
                )
            instead = "--rdzv_backend=c10d --rdzv_endpoint=<first node>:29500 on every node"
        elif subject.tool == "accelerate" and rendezvous.is_static(subject) | (subject.rendezvous_backend == "c10d"):
            if subject.setting("main_process_ip").known or isinstance(subject.setting("main_process_ip"), Unknown):
                return
            why = (
                f"{nodes} machines are to train together, but main_process_ip is not set: Accelerate "
                "cannot tell them where to meet"
            )
            instead = "--main_process_ip <first node> --main_process_port 29500"
        else:
            return
        yield self.hit(
            subject,
            why,
            instead,
            severity=None if subject.group is not None or subject.job.slurm is not None else "warning",
        )
