"""What runs in containers on the bed's real nodes: the project's own Python, found by name and across nodes."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes_bed import IMAGE, Bed

_MEET = """
import os, socket, sys
import torch, torch.distributed as dist
import trainwright
rank = int(os.environ["JOB_COMPLETION_INDEX"])
dist.init_process_group("gloo", init_method="tcp://meet-0.meet:29500", rank=rank, world_size=2)
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
with open(f"/shared/rank-{rank}", "w") as file:
    file.write(os.environ["NODE"])
print("rank", rank, "sum", total.item(), "python", sys.prefix, "user", os.getuid(), flush=True)
dist.barrier()
"""


@pytest.fixture
def bed(real_kubernetes: Bed) -> Bed:
    return real_kubernetes


def test_both_real_nodes_are_ready_and_run_1_36(bed: Bed) -> None:
    real = bed.get("nodes", labels="bed/real")["items"]
    assert [node["status"]["nodeInfo"]["kubeletVersion"] for node in real] == ["v1.36.3", "v1.36.3"]


def test_two_pods_of_an_indexed_job_meet_by_name_and_train_with_torch(bed: Bed, namespace: str) -> None:
    shared = bed.volume("shared", namespace)
    container = _container(["python3", "-c", _MEET])
    container["env"] = [
        {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "OMP_NUM_THREADS", "value": "1"},
    ]
    container["volumeMounts"] = [{"name": "shared", "mountPath": "/shared"}]
    pod = {
        "subdomain": "meet",
        "restartPolicy": "Never",
        "securityContext": {"runAsUser": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": _apart({"batch.kubernetes.io/job-name": "meet"}),
        "containers": [container],
        "volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}],
    }
    indexed = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimit": 0}
    metadata = {"name": "meet", "namespace": namespace}
    selector = {"batch.kubernetes.io/job-name": "meet"}
    bed.apply(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {**indexed, "template": {"spec": pod}},
        },
    )
    bed.wait("job/meet", "Complete", namespace)
    logs = bed.logs("-lbatch.kubernetes.io/job-name=meet", namespace)
    assert "rank 0 sum 3.0" in logs
    assert "rank 1 sum 3.0" in logs
    assert "user 1000" in logs
    assert {file.read_text() for file in shared.iterdir()} == {"node-1", "node-2"}


def test_mpirun_reaches_workers_on_both_nodes(bed: Bed, namespace: str) -> None:
    # without these sshd wants files owned by root and a PAM that containers lack
    sshd = _container(["/usr/sbin/sshd", "-De", "-o", "StrictModes=no", "-o", "UsePAM=no"])
    ssh = "-o StrictHostKeyChecking=no -o ConnectionAttempts=20"
    says = "echo rank $OMPI_COMM_WORLD_RANK on $(hostname)"
    words = ["mpirun", "--allow-run-as-root", "-np", "4", "--mca", "plm_rsh_args", ssh, "sh", "-c", says]
    workers = {"spec": {"containers": [sshd], "affinity": _apart({"training.kubeflow.org/job-role": "worker"})}}
    launcher = {"spec": {"containers": [_container(words)]}}
    replicas = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
        "Worker": {"replicas": 2, "restartPolicy": "Never", "template": workers},
    }
    spec = {"slotsPerWorker": 2, "launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": replicas}
    metadata = {"name": "mpi", "namespace": namespace}
    bed.apply({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec})
    bed.wait("mpijob/mpi", "Succeeded", namespace)
    lines = bed.logs("-ltraining.kubeflow.org/job-role=launcher", namespace).splitlines()
    ranks = {line.split(" on ")[1] for line in lines if line.startswith("rank ")}
    assert ranks == {"mpi-worker-0", "mpi-worker-1"}


def test_an_image_that_nobody_has_keeps_the_pod_waiting(bed: Bed, namespace: str) -> None:
    container = {**_container(["true"]), "image": "localhost/absent:1"}
    pod = {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"bed/real": "true"}}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": namespace}, "spec": pod})
    bed.wait("pod/x", "jsonpath={.status.containerStatuses[0].state.waiting.reason}=ErrImagePull", namespace)


def test_more_memory_than_the_limit_is_an_oom_kill(bed: Bed, namespace: str) -> None:
    container = _container(["python3", "-c", "x = bytearray(300 << 20)"])
    container["resources"] = {"limits": {"memory": "64Mi"}}
    pod = {"containers": [container], "restartPolicy": "Never", "nodeSelector": {"bed/real": "true"}}
    bed.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "namespace": namespace}, "spec": pod})
    bed.wait("pod/x", "jsonpath={.status.containerStatuses[0].state.terminated.reason}=OOMKilled", namespace)


def test_a_killed_node_is_missed_and_comes_back(bed: Bed) -> None:
    bed.script("kill", "node-2")
    bed.wait("node/node-2", "condition=Ready=Unknown")
    bed.script("up")
    bed.wait("node/node-2", "Ready")


def _container(command: list[str]) -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "command": command}


def _apart(labels: dict[str, str]) -> dict[str, Any]:
    """One pod a node."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
