"""TW334: nodes of EFA types that nothing gives EFA interfaces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import ClassVar

from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, ObjectRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.machines import accepting
from trainwright.linter.view.network import spans_nodes, uses_efa
from trainwright.linter.view.nodepools import pool_types, pools_of


class NodesGetNoEfa(ObjectRule):
    """Karpenter attaches EFA when pods ask for it, or when it is told to."""

    id = "TW334"
    severity = "warning"
    category = "network"
    summary = "nodes with EFA hardware are started without EFA interfaces"
    evidence = "verified"
    source = (
        "aws/karpenter-provider-aws v1.14.1 pkg/providers/launchtemplate/launchtemplate.go: EFA interfaces only for "
        "pods that request vpc.amazonaws.com/efa, or by spec.networkInterfaces (1.11)"
    )
    kinds: ClassVar[tuple[str, ...]] = ("EC2NodeClass",)

    def check(self, subject: KubernetesObject, project: Project) -> Iterator[Hit]:
        """Classes without interfaces whose jobs span nodes and ask for none."""
        spec = subject.get("spec")
        if spec.open or spec.get("networkInterfaces").exists or spec.get("launchTemplateName").exists:
            return
        pools = pools_of(subject, project)
        kinds = [kind for pool in pools for _, kind in pool_types(pool)]
        if not kinds or not all(kind.efa and kind.count for kind in kinds):
            return
        by_pool = _jobs_by_pool(project)
        jobs = [job for pool in pools for job in by_pool.get(id(pool), ())]
        if jobs and not any(uses_efa(job) for job in jobs):
            most = max(kinds, key=lambda kind: kind.efa)
            yield self.hit(
                spec,
                f"{most.name} has {most.efa} EFA interfaces, and a node of this class gets none: no job here asks "
                "for "
                "vpc.amazonaws.com/efa and networkInterfaces is not set, so traffic between the nodes has only TCP",
                f"vpc.amazonaws.com/efa: {most.efa} in the jobs' limits, which makes Karpenter attach them",
            )


@lru_cache(maxsize=2)
def _jobs_by_pool(project: Project) -> dict[int, list[TrainingJob]]:
    """Accelerated jobs that span nodes, by the pools (as ``id``) that accept their workers."""
    found: dict[int, list[TrainingJob]] = {}
    for job in project.jobs:
        if job.accelerated and spans_nodes(job):
            pools = {id(pool) for group in job.workers for pool in accepting(job, group, project)}
            for pool in pools:
                found.setdefault(pool, []).append(job)
    return found
