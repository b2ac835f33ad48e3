"""A JobSet that holds the whole run: prepare, then train, then finish, each started when the one before is complete.

The recommended kind. The JobSet restarts the training pods together and counts restarts; a pod that was only taken
away is replaced without one.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Run

COMPONENTS = ("kubernetes", "jobset")
KIND = "JobSet.jobset.x-k8s.io/v1alpha2"


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The one object."""
    return {"jobset.yaml": [_jobset(run)]}


def replicated_jobs(run: Run, names: dict[str, str], training: dict[str, Any]) -> list[dict[str, Any]]:
    """A replicated job for each stage under the given names, chained; ``training`` is the template of ``train``."""
    found: list[dict[str, Any]] = []
    for stage in run.stages:
        before = [{"name": found[-1]["name"], "status": "Complete"}] if found else None
        found.append(
            without_none(
                {
                    "name": names[stage],
                    "replicas": 1,
                    "dependsOn": why(before, "no accelerator is held by a stage that waits") if before else None,
                    "template": training if stage == "train" else {"spec": stages.spec(run, stage)},
                }
            )
        )
    return found


def training_job(run: Run, place: pods.Place, shape: pods.Shape) -> dict[str, Any]:
    """The Job template of training inside of a JobSet."""
    return {
        "spec": {
            "completionMode": "Indexed",
            "completions": run.nodes,
            "parallelism": run.nodes,
            "backoffLimit": why(0, "a crash restarts all pods together: that is the JobSet's failurePolicy"),
            "podFailurePolicy": stages.failure_policy(shape.container),
            "template": pods.template(run, "train", place, shape),
        }
    }


def network() -> dict[str, Any]:
    """How pods of a JobSet find each other."""
    return {
        "enableDNSHostnames": why(True, "the first node is found by its name"),
        "publishNotReadyAddresses": why(True, "nodes meet before any of them is ready"),
    }


def failure_policy(run: Run, others: list[str]) -> dict[str, Any]:
    """Errors of code and data end the JobSet, crashes of training restart it, other stages retry by themselves."""
    user = {"name": "ErrorOfCodeOrData", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    own = {"name": "OtherStages", "action": "FailJobSet", "targetReplicatedJobs": others}
    return {
        "maxRestarts": why(run.retries, "crashes that restart all pods together, from the newest checkpoint"),
        "restartStrategy": why("BlockingRecreate", "all old pods are gone first: never two trainings in one folder"),
        "rules": [user, why(own, "their Jobs have tried again already; training must not start for them")],
    }


def _jobset(run: Run) -> dict[str, Any]:
    place = pods.Place("$(JOB_COMPLETION_INDEX)", f"{run.name}-train-0-0.{run.name}:{pods.PORT}")
    names = {stage: stage for stage in run.stages}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": pods.metadata(run, "pipeline", queue=run.cluster.queue),
        "spec": {
            "network": network(),
            "failurePolicy": failure_policy(run, [stage for stage in run.stages if stage != "train"]),
            "ttlSecondsAfterFinished": stages.kept(),
            "replicatedJobs": replicated_jobs(run, names, training_job(run, place, pods.Shape())),
        },
    }
