"""A TrainJob of Kubeflow Trainer v2 and the TrainingRuntime it runs by: the whole run in one object.

The runtime is a JobSet in disguise, so it prepares, trains and finishes as ``jobset`` does.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import jobset, pods
from trainwright.targets.kubernetes.manifest import why
from trainwright.targets.kubernetes.run import Run

COMPONENTS = ("kubernetes", "trainer", "jobset")
KIND = "TrainJob.trainer.kubeflow.org/v1alpha1"
_NODE = "node"  # what Trainer calls the job and the container that train
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The runtime, and then the job: a TrainJob is refused as long as its runtime is not there."""
    return {"runtime.yaml": [_runtime(run)], "trainjob.yaml": [_trainjob(run)]}


def _runtime(run: Run) -> dict[str, Any]:
    place = pods.Place("$(JOB_COMPLETION_INDEX)", f"{run.name}-{_NODE}-0-0.{run.name}:{pods.PORT}")
    names = {stage: _NODE if stage == "train" else stage for stage in run.stages}
    training = jobset.training_job(run, place, pods.Shape(container=_NODE))
    training = {
        "metadata": {"labels": {_STEP: why("trainer", "marks what the TrainJob's trainer section is about")}},
        **training,
    }
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": pods.metadata(run, "config"),
        "spec": {
            "mlPolicy": {"numNodes": run.nodes, "torch": {}},
            "template": {
                "spec": {
                    "network": jobset.network(),
                    "failurePolicy": jobset.failure_policy(run, [s for s in run.stages if s != "train"]),
                    "replicatedJobs": jobset.replicated_jobs(run, names, training),
                }
            },
        },
    }


def _trainjob(run: Run) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": pods.metadata(run, "pipeline", queue=True),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": run.name},
            "trainer": {"numNodes": run.nodes, "numProcPerNode": run.processes},
        },
    }
