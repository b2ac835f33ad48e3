"""TW322: huge pages for EFA together with forked processes."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    JobRule,
)
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.network import is_on


class ForkSafeWithHugePages(JobRule):
    """A forked process needs the huge pages once more."""

    id = "TW322"
    severity = "warning"
    category = "network"
    summary = "huge pages for EFA together with forked processes"
    evidence = "verified"
    source = (
        "ofiwg/libfabric prov/efa/src/efa_env.c: fork support disables huge pages; aws-ofi-nccl "
        "doc/efa-env-var.md: FI_EFA_USE_HUGE_PAGE=0 when fork fails; ofiwg/libfabric#9112"
    )

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """The two settings in one job."""
        huge = next((v for v in subject.env_uses("FI_EFA_USE_HUGE_PAGE") if is_on(v)), None)
        if huge is None:
            return
        fork = next(
            (v for v in subject.env_uses("FI_EFA_FORK_SAFE", "RDMAV_FORK_SAFE", "IBV_FORK_SAFE") if is_on(v)), None
        )
        workers = next(
            (
                n
                for launch in subject.training_launches
                for n in [launch.arguments.number("num_workers", "dataloader_num_workers", "workers")]
                if (n.known or 0) > 0
            ),
            None,
        )
        if fork is not None or workers is not None:
            beside = (
                f"{fork.name}={fork.value.known}"
                if fork is not None
                else f"{workers.known if workers else 0} data loader workers"
            )
            yield self.hit(
                huge,
                f"FI_EFA_USE_HUGE_PAGE=1 beside {beside}: forks of processes that hold huge pages fail "
                'with "Cannot allocate memory"',
                "FI_EFA_USE_HUGE_PAGE=0, and no fork-safe variable",
            )
