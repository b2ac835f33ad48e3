"""A PyTorchJob v1 of the training operator, for clusters that still have it; a Job before and after it.

The operator replaces one pod at a time, and only after exit codes from 128 on; ``pod`` turns its codes into those,
and sees to it that the gang starts again together.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.manifest import why
from trainwright.targets.kubernetes.run import Run

COMPONENTS = ("kubernetes", "training-operator")
KIND = "PyTorchJob.kubeflow.org/v1"


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Objects by file, in the order of submission; the file of a stage waits for the one before."""
    return {f"{stage}.yaml": [_training(run) if stage == "train" else stages.job(run, stage)] for stage in run.stages}


def _training(run: Run) -> dict[str, Any]:
    # RANK is the operator's: the number of the pod, 0 for the master
    place = pods.Place("$(RANK)", f"{run.name}-master-0:{pods.PORT}", ("--again-above-128",))
    shape = pods.Shape(container="pytorch", restart_policy=None, port_name="pytorchjob-port")
    replica = {
        "restartPolicy": why("ExitCode", "a code below 128 ends the job: those of errors of code and data"),
        "template": pods.template(run, "train", place, shape),
    }
    replicas = {"Master": {"replicas": 1, **replica}}
    if run.nodes > 1:
        replicas["Worker"] = {"replicas": run.nodes - 1, **replica}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": pods.metadata(run, "train", queue=run.cluster.queue),
        "spec": {
            "runPolicy": {
                "cleanPodPolicy": why("None", "the master may be done while others still write; logs stay, too"),
                "backoffLimit": why(run.retries, "crashes that are tried again"),
                "ttlSecondsAfterFinished": stages.kept(),
                "schedulingPolicy": {
                    "minAvailable": why(run.nodes, "all or none, where the operator has a gang scheduler")
                },
            },
            "pytorchReplicaSpecs": replicas,
        },
    }
