"""TW327: mpirun does not pass LD_LIBRARY_PATH to the workers."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.network import uses_efa


class MpirunWithoutLibraryPath(LaunchRule):
    """Remote processes are started through ssh, without the image's environment."""

    id = "TW327"
    severity = "warning"
    category = "network"
    summary = "mpirun does not pass LD_LIBRARY_PATH to the workers"
    evidence = "reported"
    source = (
        "aws awsome-distributed-training nccl-tests manifests pass -x LD_LIBRARY_PATH -x PATH; sshd "
        "sessions do not have the image's ENV"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """mpirun over EFA without the path."""
        step = subject.launch.of("mpirun")
        if step is None or subject.job.frontend != "MPIJob" or step.flags.open or not uses_efa(subject.job):
            return
        passed = [
            flag.value.expanded
            for name in ("x", "genv", "envlist", "genvlist")
            for flag in step.flags.all(name)
            if flag.value is not None
        ]
        if (
            any("LD_LIBRARY_PATH" in text for text in passed)
            or step.flags.has("genvall", "envall")
            or any(flag.name.startswith(("genv:LD_LIBRARY_PATH", "env:LD_LIBRARY_PATH")) for flag in step.flags)
        ):
            return
        yield self.hit(
            step,
            "the workers' processes start over ssh without the image's LD_LIBRARY_PATH: they may not "
            "find the EFA plugin, and NCCL then uses TCP without a word",
            "mpirun -x LD_LIBRARY_PATH -x PATH …",
        )
