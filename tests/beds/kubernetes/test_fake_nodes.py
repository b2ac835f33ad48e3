"""What the bed's real control plane and controllers do with jobs whose pods fake nodes only pretend to run."""

from __future__ import annotations

from typing import Any

from kubernetes_bed import TOLERATIONS, Bed, until

_CRDS = {
    "jobsets.jobset.x-k8s.io",
    "clusterqueues.kueue.x-k8s.io",
    "localqueues.kueue.x-k8s.io",
    "workloads.kueue.x-k8s.io",
    "mpijobs.kubeflow.org",
    "pytorchjobs.kubeflow.org",
    "trainjobs.trainer.kubeflow.org",
    "trainingruntimes.trainer.kubeflow.org",
    "clustertrainingruntimes.trainer.kubeflow.org",
    "rayclusters.ray.io",
    "rayjobs.ray.io",
    "jobs.batch.volcano.sh",
    "queues.scheduling.volcano.sh",
}


def test_the_server_is_kubernetes_1_36(kubernetes: Bed) -> None:
    version = kubernetes.kubectl("get", "--raw", "/version")
    assert '"gitVersion": "v1.36.3"' in version


def test_every_definition_is_established(kubernetes: Bed) -> None:
    found = {
        crd["metadata"]["name"]
        for crd in kubernetes.get("crd")["items"]
        if any(each["type"] == "Established" and each["status"] == "True" for each in crd["status"]["conditions"])
    }
    assert found >= _CRDS


def test_an_indexed_job_completes_on_four_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(_job("train", namespace, nodes=4))
    kubernetes.wait("job/train", "Complete", namespace)
    pods = kubernetes.get("pods", namespace)["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"p4d-0", "p4d-1", "p4d-2", "p4d-3"}


def test_an_exit_code_of_the_user_fails_the_fake_job_at_once(kubernetes: Bed, namespace: str) -> None:
    job = _job("train", namespace, nodes=1, annotations={"bed/exit": "42"})
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
    job["spec"] |= {"podFailurePolicy": {"rules": [rule]}, "backoffLimit": 3}
    kubernetes.apply(job)
    kubernetes.wait("job/train", "Failed", namespace)
    conditions = kubernetes.get("job/train", namespace)["status"]["conditions"]
    assert "PodFailurePolicy" in [each["reason"] for each in conditions]


def test_more_than_a_fake_node_has_is_unschedulable(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(_job("train", namespace, nodes=1, gpus=16))
    until(lambda: "Insufficient nvidia.com/gpu" in _scheduling(kubernetes, namespace), "the scheduler's message")


def test_a_fake_pod_can_wait_for_its_image(kubernetes: Bed, namespace: str) -> None:
    says = {"bed/waiting": "ImagePullBackOff", "bed/message": 'Back-off pulling image "train:1"'}
    kubernetes.apply(_job("train", namespace, nodes=1, annotations=says))
    path = "{.items[0].status.containerStatuses[0].state.waiting.message}"

    def message() -> str:
        return kubernetes.kubectl("get", "pods", "-n", namespace, "-o", f"jsonpath={path}")

    until(lambda: message() == 'Back-off pulling image "train:1"', "the waiting container")


def test_a_jobset_completes_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(_jobset("train", namespace))
    kubernetes.wait("jobset/train", "Completed", namespace)


def test_a_jobset_fails_after_its_restarts_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(_jobset("train", namespace, annotations={"bed/exit": "1"}))
    kubernetes.wait("jobset/train", "Failed", namespace)
    assert kubernetes.get("jobset/train", namespace)["status"]["restarts"] == 1


def test_kueue_admits_what_the_quota_holds_and_then_the_rest(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(*_queue(namespace, gpus=16))
    label = {"kueue.x-k8s.io/queue-name": "training"}
    first = _job("first", namespace, nodes=2, annotations={"bed/run": "15s"})
    second = _job("second", namespace, nodes=2)
    first["metadata"]["labels"] = second["metadata"]["labels"] = label
    try:
        kubernetes.apply(first)
        kubernetes.wait("job/first", "jsonpath={.spec.suspend}=false", namespace)
        kubernetes.apply(second)
        until(lambda: "insufficient unused quota" in _admission(kubernetes, namespace), "Kueue's reason")
        kubernetes.wait("job/first", "Complete", namespace)
        kubernetes.wait("job/second", "Complete", namespace)
    finally:
        kubernetes.kubectl("delete", "job", "--all", "-n", namespace, "--wait=false")
        kubernetes.kubectl("delete", "clusterqueue", namespace, "--wait=false")
        kubernetes.kubectl("delete", "resourceflavor", namespace, "--wait=false")


def test_an_mpijob_succeeds_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    worker = {"replicas": 2, "restartPolicy": "Never", "template": {"spec": _pod()}}
    launcher = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": _pod(gpus=1)}}
    spec = {"slotsPerWorker": 8, "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker}}
    kubernetes.apply(_object("kubeflow.org/v2beta1", "MPIJob", "train", namespace, spec))
    kubernetes.wait("mpijob/train", "Succeeded", namespace)


def test_a_trainjob_of_the_torch_runtime_completes_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    pod = {"name": "node", "template": {"spec": {"template": {"spec": {"tolerations": TOLERATIONS}}}}}
    patch = {"manager": "bed/test", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [pod]}}}}
    trainer = {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, "runtimePatches": [patch]}
    kubernetes.apply(_object("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", namespace, spec))
    kubernetes.wait("trainjob/train", "Complete", namespace)
    pods = kubernetes.get("pods", namespace)["items"]
    names = {each["name"] for pod in pods for each in pod["spec"]["containers"][0]["env"]}
    assert {"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"} <= names


def test_a_pytorchjob_succeeds_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    replicas = {"restartPolicy": "Never", "template": {"spec": _pod(name="pytorch")}}
    spec = {"pytorchReplicaSpecs": {"Master": {"replicas": 1, **replicas}, "Worker": {"replicas": 1, **replicas}}}
    kubernetes.apply(_object("kubeflow.org/v1", "PyTorchJob", "train", namespace, spec))
    kubernetes.wait("pytorchjob/train", "Succeeded", namespace)
    [master] = kubernetes.get("pods", namespace, "training.kubeflow.org/replica-type=master")["items"]
    assert {each["name"] for each in master["spec"]["containers"][0]["env"]} >= {"MASTER_ADDR", "WORLD_SIZE", "RANK"}


def test_a_raycluster_is_ready_on_fake_nodes(kubernetes: Bed, namespace: str) -> None:
    kubernetes.apply(_object("ray.io/v1", "RayCluster", "ray", namespace, _ray()))
    kubernetes.wait("raycluster/ray", "jsonpath={.status.state}=ready", namespace)


def test_the_webhook_of_jobset_refuses_a_name_that_is_too_long_for_pods(kubernetes: Bed, namespace: str) -> None:
    said = kubernetes.apply(_jobset("a" * 60, namespace), check=False)
    assert "pod names generated for this JobSet will exceed 63 characters" in said


def test_the_webhook_of_trainer_refuses_a_runtime_that_is_absent(kubernetes: Bed, namespace: str) -> None:
    spec = {"runtimeRef": {"name": "absent"}}
    said = kubernetes.apply(
        _object("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", namespace, spec), check=False
    )
    assert "denied the request" in said  # Trainer's own or Kueue's, whichever answers first
    assert "not found" in said


def test_the_webhook_of_kuberay_refuses_two_groups_of_one_name(kubernetes: Bed, namespace: str) -> None:
    said = kubernetes.apply(_object("ray.io/v1", "RayCluster", "ray", namespace, _ray("a", "a")), check=False)
    assert "worker group names must be unique" in said


def test_the_webhook_of_the_training_operator_wants_a_container_called_pytorch(
    kubernetes: Bed, namespace: str
) -> None:
    replicas = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": _pod(name="other")}}
    spec = {"pytorchReplicaSpecs": {"Master": replicas}}
    said = kubernetes.apply(_object("kubeflow.org/v1", "PyTorchJob", "train", namespace, spec), check=False)
    assert "admission webhook" in said or "is invalid" in said
    assert "pytorch" in said


def test_the_webhook_of_kueue_refuses_a_parallelism_beyond_the_job(kubernetes: Bed, namespace: str) -> None:
    job = _job("train", namespace, nodes=2)
    job["metadata"] |= {
        "labels": {"kueue.x-k8s.io/queue-name": "training"},
        "annotations": {"kueue.x-k8s.io/job-min-parallelism": "9"},
    }
    assert "should be between 0 and 1" in kubernetes.apply(job, check=False)


def test_a_user_without_rights_is_told_verb_and_resource(kubernetes: Bed, namespace: str) -> None:
    nobody = Bed(kubernetes.folder, kubernetes.kubeconfig.with_name("nobody.kubeconfig"))
    said = nobody.kubectl("get", "pods", "--namespace", namespace, check=False)
    assert 'User "nobody" cannot list resource "pods"' in said


def test_a_killed_api_server_comes_back_with_what_it_knew(kubernetes: Bed, namespace: str) -> None:
    kubernetes.script("kill", "kube-apiserver")
    assert "refused" in kubernetes.kubectl("get", "namespace", namespace, check=False)
    kubernetes.script("up")
    kubernetes.apply(_job("train", namespace, nodes=1))
    kubernetes.wait("job/train", "Complete", namespace)


def _object(version: str, kind: str, name: str, namespace: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _pod(gpus: int = 8, name: str = "train") -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    return {
        "tolerations": TOLERATIONS,
        "nodeSelector": {"node.kubernetes.io/instance-type": "p4d.24xlarge"},
        "containers": [{"name": name, "image": "train:1", "resources": resources}],
    }


def _template(gpus: int = 8, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"annotations": annotations or {}}, "spec": {**_pod(gpus), "restartPolicy": "Never"}}


def _job(
    name: str, namespace: str, *, nodes: int, gpus: int = 8, annotations: dict[str, str] | None = None
) -> dict[str, Any]:
    indexed = {"completionMode": "Indexed", "completions": nodes, "parallelism": nodes, "backoffLimit": 0}
    return _object("batch/v1", "Job", name, namespace, {**indexed, "template": _template(gpus, annotations)})


def _jobset(name: str, namespace: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    job = _job(name, namespace, nodes=2, annotations=annotations)["spec"]
    workers = {"name": "workers", "template": {"spec": job}}
    spec = {"failurePolicy": {"maxRestarts": 1}, "replicatedJobs": [workers]}
    return _object("jobset.x-k8s.io/v1alpha2", "JobSet", name, namespace, spec)


def _queue(namespace: str, gpus: int) -> list[dict[str, Any]]:
    api = "kueue.x-k8s.io/v1beta2"
    select = {"nodeLabels": {"node.kubernetes.io/instance-type": "p4d.24xlarge"}}
    quota = {"name": namespace, "resources": [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]}
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    cluster = {"namespaceSelector": {}, "resourceGroups": groups}
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": namespace}, "spec": select},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": namespace}, "spec": cluster},
        _object(api, "LocalQueue", "training", namespace, {"clusterQueue": namespace}),
    ]


def _ray(*names: str) -> dict[str, Any]:
    workers = [
        {
            "groupName": name,
            "replicas": 2,
            "minReplicas": 2,
            "maxReplicas": 2,
            "rayStartParams": {},
            "template": {"spec": _pod(name="ray-worker")},
        }
        for name in names or ("workers",)
    ]
    head = {"rayStartParams": {}, "template": {"spec": _pod(gpus=0, name="ray-head")}}
    return {"rayVersion": "2.52.0", "headGroupSpec": head, "workerGroupSpecs": workers}


def _scheduling(bed: Bed, namespace: str) -> str:
    path = "jsonpath={.items[*].status.conditions[?(@.type=='PodScheduled')].message}"
    return bed.kubectl("get", "pods", "-n", namespace, "-o", path)


def _admission(bed: Bed, namespace: str) -> str:
    return bed.kubectl("get", "workloads", "-n", namespace, "-o", "jsonpath={.items[*].status.conditions[*].message}")
