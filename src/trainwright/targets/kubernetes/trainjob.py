"""A TrainJob of Kubeflow Trainer v2 and the TrainingRuntime it runs by: the whole run in one object.

The runtime is a JobSet in disguise, so it prepares, trains and finishes as ``jobset`` does. With
``target.overrides: {runtime: NAME}`` training runs by a runtime that the cluster has, changed in the TrainJob where
it must be: ``runtimePatches`` since Trainer 2.2, ``podTemplateOverrides`` in 2.1, ``podSpecOverrides`` in 2.0.
"""

from __future__ import annotations

from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.facts.versions import parts
from trainwright.targets.kubernetes import jobset, pods, stages
from trainwright.targets.kubernetes.manifest import why
from trainwright.targets.kubernetes.run import Run

OVERRIDES = ("runtime",)  # names in target.overrides that are no patches
COMPONENTS = ("kubernetes", "trainer", "jobset")
KIND = "TrainJob.trainer.kubeflow.org/v1alpha1"
_NODE = "node"  # what Trainer calls the job and the container that train
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_GROUP = "trainer.kubeflow.org"
_MANAGER = "trainwright.dev/trainwright"
#: Fields of a pod that a TrainJob may change in its runtime.
_PATCHED = (
    "serviceAccountName", "nodeSelector", "affinity", "tolerations", "imagePullSecrets", "securityContext", "volumes",
)  # fmt: skip


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The runtime, and then the job: a TrainJob is refused as long as its runtime is not there."""
    named = existing(run)
    if named is None:
        return {"runtime.yaml": [_runtime(run)], "trainjob.yaml": [_trainjob(run)]}
    found = {stage: [stages.job(run, stage)] for stage in run.stages}
    found["train"] = [_trainjob_by(run, named)]
    return {f"{stage}.yaml": found[stage] for stage in run.stages}


def existing(run: Run) -> dict[str, str] | None:
    """The runtime of the cluster that the spec names, as ``runtimeRef``; None to render one."""
    named = run.spec.target.overrides.get(OVERRIDES[0])
    if named is None:
        return None
    kind, name = "ClusterTrainingRuntime", named
    if isinstance(named, dict):
        kind, name = named.get("kind", kind), named.get("name")
    if not isinstance(name, str) or kind not in ("ClusterTrainingRuntime", "TrainingRuntime"):
        instead = "write the name of a ClusterTrainingRuntime, or {kind: TrainingRuntime, name: …}"
        raise InputError(
            [Problem("", field=f"target.overrides.{OVERRIDES[0]}", what=f"is {named!r}", instead=instead)]
        )
    return {"apiGroup": _GROUP, "kind": kind, "name": name}


def _runtime(run: Run) -> dict[str, Any]:
    place = _place(run)
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


def _place(run: Run) -> pods.Place:
    return pods.Place("$(JOB_COMPLETION_INDEX)", f"{run.name}-{_NODE}-0-0.{run.name}:{pods.PORT}")


def _trainjob_by(run: Run, runtime: dict[str, str]) -> dict[str, Any]:
    """A TrainJob by a runtime of the cluster: what the runtime cannot know stands in the job itself."""
    template = pods.template(run, "train", _place(run), pods.Shape(container=_NODE))
    container = template["spec"]["containers"][0]
    trainer = {
        "numNodes": run.nodes,
        "numProcPerNode": run.processes,
        "image": container["image"],
        "command": container["command"],
        "args": container["args"],
        "env": container["env"],
        "resourcesPerNode": container["resources"],
    }
    return {
        "apiVersion": f"{_GROUP}/v1alpha1",
        "kind": "TrainJob",
        "metadata": pods.metadata(run, "train", queue=run.cluster.queue),
        "spec": {"runtimeRef": runtime, "trainer": trainer, **_patches(run, template)},
    }


def _patches(run: Run, template: dict[str, Any]) -> dict[str, Any]:
    """What the pods need beside the trainer, in the words of the Trainer's version."""
    version = parts(run.versions["trainer"])
    pod = {name: value for name, value in template["spec"].items() if name in _PATCHED}
    container = {"name": _NODE, "volumeMounts": template["spec"]["containers"][0]["volumeMounts"]}
    if version >= (2, 2):
        container["securityContext"] = template["spec"]["containers"][0]["securityContext"]
        pods_of_node = {"metadata": template["metadata"], "spec": {**pod, "containers": [container]}}
        job = {"name": _NODE, "template": {"spec": {"template": pods_of_node}}}
        patch = {"manager": _MANAGER, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}
        return {"runtimePatches": [patch]}
    pod.pop("securityContext", None)  # came with 2.2
    target = [{"name": _NODE}]
    if version >= (2, 1):
        spec = {**pod, "containers": [container]}
        return {"podTemplateOverrides": [{"targetJobs": target, "metadata": template["metadata"], "spec": spec}]}
    return {"podSpecOverrides": [{"targetJobs": target, **pod, "containers": [container]}]}


def _trainjob(run: Run) -> dict[str, Any]:
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": pods.metadata(run, "pipeline", queue=run.cluster.queue),
        "spec": {
            "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": run.name},
            "trainer": {"numNodes": run.nodes, "numProcPerNode": run.processes},
        },
    }
