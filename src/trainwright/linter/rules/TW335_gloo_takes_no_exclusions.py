"""TW335: GLOO_SOCKET_IFNAME with the exclusion syntax that only NCCL knows."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob


class GlooTakesNoExclusions(JobRule):
    """Gloo takes names, and nothing else."""

    id = "TW335"
    severity = "warning"
    category = "network"
    summary = "GLOO_SOCKET_IFNAME with a list of exclusions"
    evidence = "verified"
    source = (
        "torch/csrc/distributed/c10d/init.cpp and ProcessGroupGloo.cpp: the value is split at commas and "
        "each part is "
        "the name of an interface; only NCCL knows ^ and ="
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """Values that begin like NCCL's exclusions."""
        for variable in subject.env_uses("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
            value = (variable.value.known or "").strip()
            if value[:1] in ("^", "="):
                yield self.hit(
                    variable,
                    f"{variable.name}={value}: {value[0]} is NCCL's syntax, and here the whole text is taken "
                    f"for the name "
                    "of an interface: creating a Gloo group (CPU tensors, barriers, checkpoint planning) fails with "
                    f"unable to find address for {value.split(',')[0]}",
                    "one name (eth0, ens5), or leave it out",
                )
