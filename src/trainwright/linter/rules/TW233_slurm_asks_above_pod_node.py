"""TW233: a Slurm job that asks for more than the Kubernetes nodes behind its partition leave to pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.facts.node_types import NodeType
from trainwright.linter.documents import KubernetesObject
from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, JobRule
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.nodepools import pool_types, taints


class SlurmAsksAbovePodNode(JobRule):
    """slurmd in a pod offers what the pod has, not what the machine has."""

    id = "TW233"
    severity = "warning"
    category = "accelerators"
    summary = "a Slurm job asks for more than the pods behind its partition can have"
    evidence = "verified"
    source = (
        "SlinkyProject/slurm-operator worker_app.go: slurmd registers the limits of its pod; allocatable CPU and "
        "memory of EKS nodes as Karpenter 1.14 computes them"
    )
    frontends: ClassVar[tuple[str, ...]] = ("sbatch",)

    def check(self, subject: TrainingJob, project: Project) -> Iterator[Hit]:
        """CPUs and memory per node against the NodePools that bear the partition's name."""
        allocation = subject.slurm
        partition = allocation.flags.text("partition").known if allocation is not None else None
        if allocation is None or not partition:
            return
        pools = project.near(subject.document, project.objects("NodePool"))
        kinds = [kind for pool in pools if _serves(pool, partition) for _, kind in pool_types(pool)]
        if not kinds:
            return
        tasks, each = allocation.tasks_per_node, allocation.cpus_per_task
        most = max((kind.cpu or 1000 * (kind.vcpus or 0)) for kind in kinds) / 1000
        if tasks.known and each.known and tasks.known * each.known > most > 0:
            yield self.hit(
                each,
                f"{tasks.known} tasks × {each.known} CPUs is {tasks.known * each.known} per node, and the slurmd "
                "pods "
                f"of partition {partition} run on {kinds[0].name}, which leaves {most:g} of its CPUs to pods: the "
                "job stays pending for ever",
                f"--cpus-per-task={int(most / tasks.known)}, or --exclusive without --cpus-per-task",
            )
        yield from self._memory(subject, partition, kinds)

    def _memory(self, subject: TrainingJob, partition: str, kinds: list[NodeType]) -> Iterator[Hit]:
        asked = subject.slurm.megabytes if subject.slurm is not None else None
        if asked is None or not asked.known or any(kind.memory is None for kind in kinds):
            return
        most = max(kind.memory or 0 for kind in kinds) / 2**20
        if asked.known > most:
            yield self.hit(
                asked,
                f"{asked.known / 1024:.0f} GiB per node are asked for, and the slurmd pods of partition {partition} "
                f"run on {kinds[0].name}, which leaves {most / 1024:.0f} GiB to pods: the job stays pending for ever",
                "--mem=0 with --exclusive: all that the node has",
            )


def _serves(pool: KubernetesObject, partition: str) -> bool:
    """Whether a pool names a Slurm partition in its labels or taints."""
    labels = pool.get("spec", "template", "metadata", "labels").pairs()
    named = [(key.raw, value.string) for key, value in labels] + [(key, value) for key, value, _ in taints(pool)]
    return any(value == partition and key.rsplit("/", 1)[-1].endswith("partition") for key, value in named)
