"""TW622: a pool that may give one gang different accelerators."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods
from trainwright.linter.view.machines import machines


class GangOnMixedMachines(PodRule):
    """The slowest, smallest accelerator sets the pace."""

    id = "TW622"
    severity = "warning"
    category = "scheduling"
    summary = "the pods of one job may land on machines with different accelerators"
    evidence = "verified"
    source = "EC2 instance types (facts/instances.json): p4d has 40 GB A100s, p4de 80 GB; Karpenter chooses per node"

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Types allowed for groups of several pods."""
        group, job = subject.group, subject.job
        if (group.count.known or 0) < 2 or not group.accelerated or not job.ends:
            return
        found = machines(job, group, project)
        kinds = {machine.accelerator.name for _, machine in found}
        if len(kinds) > 1:
            yield self.hit(
                found[0][0],
                f"the {group.count.known} pods may run on {', '.join(sorted(kinds))} at once: every step "
                "waits for the "
                "slowest, and a batch that fits the largest memory does not fit the smallest",
                "one instance type for the pods of one job (nodeSelector: node.kubernetes.io/instance-type)",
            )
