"""A Volcano Job, with a Queue of its own where the site names none; a Job before and after it.

Volcano places the pods together and restarts them together.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Run

COMPONENTS = ("kubernetes", "volcano")
KIND = "Job.batch.volcano.sh/v1alpha1"
_TASK = "node"


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Objects by file, in the order of submission; the file of a stage waits for the one before."""
    queue = {} if run.cluster.queue else {"queue.yaml": [_queue(run)]}
    jobs = {
        f"{stage}.yaml": [_training(run) if stage == "train" else stages.job(run, stage, kueue=False)]
        for stage in run.stages
    }
    return {**queue, **jobs}


def _queue(run: Run) -> dict[str, Any]:
    asked = run.training()
    held = {name: count * run.nodes for name, count, _ in asked.devices}
    total = {"cpu": str(asked.cpu * run.nodes), "memory": pods.quantity(asked.memory * run.nodes), **held}
    metadata = pods.metadata(run, "config")
    del metadata["namespace"]  # queues belong to the whole cluster
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": metadata,
        "spec": {
            "weight": 1,
            "capability": why(total, "room for this gang, EFA included: a queue without it never admits the pods"),
            "reclaimable": why(False, "other queues may not take a node of a running gang back"),
        },
    }


def _training(run: Run) -> dict[str, Any]:
    place = pods.Place("$(VC_TASK_INDEX)", f"{run.name}-{_TASK}-0.{run.name}:{pods.PORT}")
    again = "RestartJob" if run.retries else "TerminateJob"
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": pods.metadata(run, "train"),
        "spec": without_none(
            {
                "schedulerName": "volcano",
                "queue": run.cluster.queue or run.name,
                "priorityClassName": run.cluster.priority_class,
                "minAvailable": why(run.nodes, "all pods or none"),
                "maxRetry": why(max(1, run.retries), "restarts of the whole job"),
                "ttlSecondsAfterFinished": stages.kept(),
                "plugins": {
                    "svc": why([], "gives the pods names: <job>-<task>-<index>.<job>"),
                    "env": why([], "gives them their index: VC_TASK_INDEX"),
                },
                # the first that fits decides
                "policies": [
                    *(
                        why({"exitCode": int(code), "action": "TerminateJob"}, reason)
                        for code, reason in zip(stages.STOP, _STOPPED, strict=True)
                    ),
                    why({"event": "PodEvicted", "action": again}, "one pod that is gone leaves the others waiting"),
                    {"event": "PodFailed", "action": again},
                    {"event": "TaskCompleted", "action": "CompleteJob"},
                ],
                "tasks": [
                    {
                        "name": _TASK,
                        "replicas": run.nodes,
                        "template": pods.template(run, "train", place, pods.Shape(scheduler="volcano")),
                    }
                ],
            }
        ),
    }


_STOPPED = ("an error of code or data would happen again", "so would bad input", "and a loss that is not finite")
