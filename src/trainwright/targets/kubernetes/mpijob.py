"""An MPIJob v2beta1 of the MPI operator: a launcher without accelerators, and a worker on every node.

mpirun starts one process a node, over ssh, and that process starts the ranks as on every other target. What the
launcher and the workers run is in ``mpi``.
"""

from __future__ import annotations

from typing import Any

from trainwright.targets.kubernetes import pods, stages
from trainwright.targets.kubernetes.manifest import why, without_none
from trainwright.targets.kubernetes.run import Resources, Run

COMPONENTS = ("kubernetes", "mpi-operator")
KIND = "MPIJob.kubeflow.org/v2beta1"
COMMAND = ("python3", "-P", "-m", "trainwright.targets.kubernetes.mpi")
LAUNCHER_VARIABLE = "TRAINWRIGHT_LAUNCHER"  # as ``mpi`` names it
READY = "/tmp/trainwright/ready"  # as ``mpi`` names it
SSH_PORT = 2222
_LAUNCHER = Resources(cpu=1, memory=2 * 2**30)


def files(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Objects by file, in the order of submission; the file of a stage waits for the one before."""
    return {f"{stage}.yaml": [_training(run) if stage == "train" else stages.job(run, stage)] for stage in run.stages}


def _training(run: Run) -> dict[str, Any]:
    keys = "/root/.ssh" if run.cluster.user == 0 else "/etc/trainwright-ssh"
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": pods.metadata(run, "train", queue=run.cluster.queue),
        "spec": {
            "slotsPerWorker": why(1, f"mpirun starts one process a node, which starts {run.processes} rank(s) there"),
            "mpiImplementation": "OpenMPI",
            "launcherCreationPolicy": why("WaitForWorkersReady", "else the launcher fails while nodes are started"),
            "sshAuthMountPath": keys,
            "runPolicy": {
                "cleanPodPolicy": why("Running", "workers end with the launcher and free their nodes"),
                "backoffLimit": why(
                    run.retries, "launchers that are lost; crashes of ranks are counted by the launcher"
                ),
                "ttlSecondsAfterFinished": stages.kept(),
                "schedulingPolicy": {"minAvailable": why(run.nodes, "all workers or none; the launcher comes later")},
            },
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(run, keys)},
                "Worker": {
                    "replicas": run.nodes,
                    "restartPolicy": why("OnFailure", "the operator replaces no worker that has failed"),
                    "template": _worker(run, keys),
                },
            },
        },
    }


def _worker(run: Run, keys: str) -> dict[str, Any]:
    template = pods.template(run, "train", shape=pods.Shape(container="worker", restart_policy=None))
    container = template["spec"]["containers"][0]
    container |= {
        "command": list(COMMAND),
        "args": ["serve", "--keys", keys, "--port", str(SSH_PORT)],
        "ports": [{"name": "ssh", "containerPort": SSH_PORT}, *container.get("ports", ())],
        "readinessProbe": why(
            {"exec": {"command": ["test", "-e", READY]}, "periodSeconds": 5},
            "the launcher starts when sshd answers everywhere",
        ),
    }
    return template


def _launcher(run: Run, keys: str) -> dict[str, Any]:
    template = pods.template(run, "train", shape=pods.Shape(container="launcher", restart_policy=None))
    spec = template["spec"]
    container = spec["containers"][0]
    meet = ["--nodes", str(run.nodes), "--rendezvous", f"{run.name}-worker-0.{run.name}:{pods.PORT}"]
    no_devices = pods.cpu_affinity()
    container |= {
        "command": list(COMMAND),
        "args": ["launch", "--keys", keys, "--port", str(SSH_PORT), *meet],
        "resources": pods.resources(_LAUNCHER),
        "volumeMounts": pods.mounts(run, _LAUNCHER),
    }
    owner = {"fieldRef": {"fieldPath": "metadata.labels['batch.kubernetes.io/controller-uid']"}}
    container["env"].append({"name": LAUNCHER_VARIABLE, "valueFrom": owner})
    container.pop("ports", None)
    spec |= {"affinity": no_devices, "volumes": pods.volumes(run, _LAUNCHER)}
    if run.node is not None:
        spec["tolerations"] = [dict(one) for one in run.cluster.tolerations] or None
        spec["nodeSelector"] = None
    template["spec"] = without_none(spec)
    return template
