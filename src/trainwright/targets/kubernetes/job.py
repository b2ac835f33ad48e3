"""An Indexed Job with a headless Service, before and after it a Job for each other stage.

For clusters without any training operator. The Job replaces one pod at a time; that the others start again with it is
what ``pod`` sees to inside.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.labels import RUN, STAGE
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Run

COMPONENTS = ("kubernetes",)
KIND = "Job.batch/v1"


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Objects by file, in the order of submission; the file of a stage waits for the one before."""
    found = {stage: [stages.job(run, stage)] for stage in run.stages}
    found["train"] = [*([_service(run)] if run.nodes > 1 else []), _training(run)]
    return {f"{stage}.yaml": found[stage] for stage in run.stages}


def _service(run: Run) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": pods.metadata(run, "config"),
        "spec": {
            "clusterIP": why("None", "gives each pod a name of its own: <job>-<index>.<service>"),
            "publishNotReadyAddresses": why(True, "nodes meet before any of them is ready"),
            "selector": {RUN: run.name, STAGE: "train"},
            "ports": [{"name": "rendezvous", "port": pods.PORT}],
        },
    }


def _training(run: Run) -> dict[str, Any]:
    several = run.nodes > 1
    place = pods.Place("$(JOB_COMPLETION_INDEX)", f"{run.name}-0.{run.name}:{pods.PORT}")
    shape = pods.Shape(subdomain=run.name if several else None)
    gang = {
        "completionMode": why("Indexed", "each pod has a number and a name that stay when it is replaced"),
        "completions": run.nodes,
        "parallelism": run.nodes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": pods.metadata(run, "train", queue=run.cluster.queue),
        "spec": without_none(
            {
                **(gang if several else {}),
                "backoffLimit": why(run.retries, "crashes that are tried again; a crash of one node counts once"),
                "podFailurePolicy": stages.failure_policy(shape.container),
                "ttlSecondsAfterFinished": stages.kept(),
                "template": pods.template(run, "train", place, shape),
            }
        ),
    }
