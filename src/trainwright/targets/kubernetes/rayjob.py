"""A RayJob of KubeRay: a Ray cluster for the time of training, and the driver that trains on it; a Job at both ends.

Also the RayCluster that stays: the same pods with 1 to 16 workers, as many as its jobs ask for. It is carried in the
bundle and not submitted.
"""

from __future__ import annotations

import math
from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Resources, Run

COMPONENTS = ("kubernetes", "kuberay")
KIND = "RayJob.ray.io/v1"
DRIVER = ("python3", "-P", "-m", "trainwright.targets.ray.driver")
_HEAD = Resources(cpu=2, memory=8 * 2**30)
_SUBMITTER = Resources(cpu=1, memory=2**30)
_LEAST, _MOST = 1, 16
_OBJECT_STORE = str(10**9)  # bytes; by itself Ray would take 30 % of the memory, more than /dev/shm has
#: Ray's own processes need some of a node: a core and a tenth of the memory stay with them.
_RAYS_CPU = 1


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Objects by file, in the order of submission; the file of a stage waits for the one before."""
    return {f"{stage}.yaml": [_training(run) if stage == "train" else stages.job(run, stage)] for stage in run.stages}


def carried(run: Run) -> dict[str, list[dict[str, Any]]]:
    """A cluster that stays, for those who submit several runs to one Ray."""
    cluster = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": pods.metadata(run, "config", "trainwright"),
        "spec": cluster_spec(run, least=_LEAST, most=_MOST),
    }
    return {"raycluster.yaml": [cluster]}


def cluster_spec(run: Run, *, least: int, most: int) -> dict[str, Any]:
    """The spec of a Ray cluster; with ``least`` below ``most`` it grows and shrinks with its jobs."""
    elastic = least < most
    return without_none(
        {
            "enableInTreeAutoscaling": why(True, "workers come and go with the jobs that ask for them")
            if elastic
            else None,
            "autoscalerOptions": {"idleTimeoutSeconds": why(600, "an idle node is given back")} if elastic else None,
            "headGroupSpec": {
                "serviceType": why("ClusterIP", "whoever reaches the Jobs API can run anything: never public"),
                "rayStartParams": {"num-cpus": why("0", "no work on the head")},
                "template": _head(run, elastic),
            },
            "workerGroupSpecs": [
                {
                    "groupName": "node",
                    "replicas": least if elastic else run.nodes,
                    "minReplicas": least if elastic else run.nodes,
                    "maxReplicas": most if elastic else run.nodes,
                    "rayStartParams": {
                        "object-store-memory": why(_OBJECT_STORE, "data goes past it: /dev/shm is for the ranks")
                    },
                    "template": _worker(run),
                }
            ],
        }
    )


def entrypoint(run: Run) -> str:
    """The driver's command with the numbers of the plan; Ray gives it to a shell."""
    asked = run.training()
    gpus = sum(count for name, count, _ in asked.devices if name == "nvidia.com/gpu")
    neuron = sum(count for name, count, _ in asked.devices if name == "aws.amazon.com/neuron")
    words = [*DRIVER, "drive", "--nodes", str(run.nodes), "--cpus", str(max(1, asked.cpu - _RAYS_CPU))]
    words += ["--gpus", str(gpus)] if gpus else []
    words += ["--resource", f"neuron_cores={neuron * _cores_per_device(run)}"] if neuron else []
    return " ".join([*words, "--failures", str(run.retries)])


def _training(run: Run) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": pods.metadata(run, "train", queue=run.cluster.queue),
        "spec": {
            "entrypoint": why(entrypoint(run), "each Ray worker holds the devices of the ranks that it starts"),
            "shutdownAfterJobFinishes": why(True, "else the nodes are held when training is over"),
            "ttlSecondsAfterFinished": why(
                60, "until then the nodes are held; logs and checkpoints lie on the storage"
            ),
            "backoffLimit": why(
                0, "lost workers are started again by Ray Train; errors must not start a second cluster"
            ),
            "submitterPodTemplate": _submitter(run),
            "rayClusterSpec": cluster_spec(run, least=run.nodes, most=run.nodes),
        },
    }


def _worker(run: Run) -> dict[str, Any]:
    template = _bare(pods.template(run, "train", shape=pods.Shape(container="ray-worker", restart_policy=None)))
    save = {"exec": {"command": [*DRIVER, "save"]}}
    template["spec"]["containers"][0]["lifecycle"] = {
        "preStop": why(save, "Ray kills its workers at once: before that, ranks save")
    }
    return template


def _head(run: Run, elastic: bool) -> dict[str, Any]:
    template = _light(run, "ray-head", _HEAD)
    container = template["spec"]["containers"][0]
    ports = {"gcs": 6379, "dashboard": 8265, "client": 10001}
    container["ports"] = [{"name": name, "containerPort": port} for name, port in ports.items()]
    if elastic:
        template["spec"]["automountServiceAccountToken"] = why(True, "the autoscaler changes the number of workers")
    return template


def _submitter(run: Run) -> dict[str, Any]:
    template = _light(run, "ray-job-submitter", _SUBMITTER)
    template["spec"]["restartPolicy"] = "Never"
    return template


def _light(run: Run, container: str, asked: Resources) -> dict[str, Any]:
    """A pod with the run's environment and storage that holds no accelerator."""
    template = _bare(pods.template(run, "train", shape=pods.Shape(container=container, restart_policy=None)))
    spec = template["spec"]
    spec["containers"][0] |= {"resources": pods.resources(asked), "volumeMounts": pods.mounts(run, asked)}
    spec["containers"][0].pop("ports", None)
    spec |= {"affinity": pods.cpu_affinity(), "volumes": pods.volumes(run, asked)}
    if run.node is not None:
        spec |= {"tolerations": [dict(one) for one in run.cluster.tolerations] or None, "nodeSelector": None}
    template["spec"] = without_none(spec)
    return template


def _bare(template: dict[str, Any]) -> dict[str, Any]:
    """Without command and arguments: KubeRay starts Ray in the container."""
    for word in ("command", "args"):
        template["spec"]["containers"][0].pop(word)
    return template


def _cores_per_device(run: Run) -> int:
    cores = getattr(run.node, "neuron_cores", None)
    return math.ceil(cores / run.node.count) if cores and run.node is not None else 2
