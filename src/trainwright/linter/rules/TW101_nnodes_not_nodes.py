"""TW101: the launcher waits for another number of nodes than start."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Absent, Known
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch


class NnodesNotNodes(LaunchRule):
    """``--nnodes`` (or ``num_machines``) and the nodes that really start must be one number."""

    id = "TW101"
    severity = "error"
    category = "launch"
    summary = "the launcher expects another number of nodes than start"
    evidence = "reproduced"
    source = (
        "torch.distributed.run rendezvous (waits until nnodes have joined, then gives up after 600 "
        "s); kubeflow/trainer#1713"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Compare the two when both are known."""
        nodes, told = subject.nodes.known, subject.nnodes
        if subject.tool not in ("torchrun", "accelerate") or not nodes or subject.flags.has("standalone"):
            return
        option = "--num_machines" if subject.tool == "accelerate" else "--nnodes"
        if isinstance(told, Known) and told.value > nodes:
            yield self.hit(
                told,
                f"{told.value} nodes are waited for but {nodes} "
                f"start{'s' if nodes == 1 else ''}: the rendezvous never completes, while the accelerators "
                f"are held",
                f"{option} {nodes}, or start {told.value} nodes",
                severity="warning" if _may_grow(subject, told.value) else None,
            )
        elif (
            isinstance(told, Known) and told.value < nodes and (subject.group is not None or subject.srun is not None)
        ):
            yield self.hit(
                told,
                f"{nodes} nodes start but the launcher is told {told.value}: the others "
                f"wait in vain or train apart from each other",
                f"{option} {nodes}",
                severity="warning" if _may_be_apart(subject) else None,
            )
        elif isinstance(told, Absent) and nodes > 1 and subject.tool == "torchrun":
            yield self.hit(
                told,
                f"{nodes} nodes start torchrun without --nnodes (default 1): each trains "
                f"alone, with its own full copy of the job",
                f"--nnodes={nodes} with --rdzv_backend=c10d --rdzv_endpoint=<first node>:29500",
                severity="warning" if _may_be_apart(subject) else None,
            )


def _may_be_apart(launch: JobLaunch) -> bool:
    """Whether the pods of a plain Job may be runs of their own, such as the points of a sweep: one process each, and
    no place to meet."""
    return (
        launch.job.frontend in ("Job", "CronJob")
        and launch.processes_per_node.known in (None, 1)
        and rendezvous.host(launch) is None
    )


def _may_grow(launch: JobLaunch, nodes: int) -> bool:
    """Whether an autoscaler may add the missing pods: an elastic PyTorchJob that reaches this number."""
    most = launch.job.get("spec", "elasticPolicy", "maxReplicas").integer
    return most is not None and most >= nodes
