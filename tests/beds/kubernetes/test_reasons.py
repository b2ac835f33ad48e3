"""Every wait and failure that can be provoked on the bed is told by its right reason: real API server, scheduler,
controllers and Kueue; the pods are on fake nodes, so what a kubelet would say is said by an annotation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_runs import Run, Runs
from kubernetes_bed import Bed, until

LABEL = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
LIVE = {"bed/run": "600s"}


@dataclass(frozen=True)
class Case:
    """What is provoked and what has to be told. ``prepare`` names objects to be made first."""

    name: str
    reason: str
    words: str
    phase: str = "PENDING"
    kind: str = "jobset"
    gpus: bool = False
    annotations: Mapping[str, str] = field(default_factory=lambda: LIVE)
    pod: Mapping[str, Any] = field(default_factory=dict)
    site: Mapping[str, Any] = field(default_factory=dict)
    objects: tuple[str, ...] = ()


def _container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trainer", **fields}]}


def _limits(**resources: str) -> dict[str, Any]:
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in resources.items()}
    return _container(resources={"limits": named, "requests": named})


WAITS = [
    Case("no node has so many GPUs", "ksched-insufficient-device", "asks for 64 nvidia.com/gpu", gpus=True,
         pod=_limits(nvidia_com__gpu="64")),
    Case("a device that nobody offers", "ksched-insufficient-device", "No node of the cluster offers",
         pod=_limits(example_com__tpu="1")),
    Case("no node has so much memory", "ksched-insufficient-basic", "memory", pod=_limits(memory="9000Gi")),
    Case("a label that no node has", "ksched-affinity", "labels", site={"node_labels": {"pool": "nowhere"}}),
    Case("a taint that is not tolerated", "ksched-taint", "nvidia.com/gpu", pod={"nodeSelector": LABEL}),
    Case("a claim that is not there", "k8s-claim-missing", "claim nope does not exist",
         site={"claims": [{"name": "nope", "path": "/shared"}]}),
    Case("a claim of a class that is not there", "k8s-claim-unbound", "storageclass", objects=("claim-no-class",),
         site={"claims": [{"name": "no-class", "path": "/shared"}]}),
    Case("a namespace quota of pods", "job-resourcequota", "quota small", objects=("quota",)),
    Case("a service account that is not there", "job-create-forbidden", "serviceaccount",
         site={"service_account": "nobody"}),
    Case("a gate that nobody opens", "ksched-gated", "gate", pod={"schedulingGates": [{"name": "example.com/wait"}]}),
    Case("a host port that is taken", "ksched-ports", "host port", objects=("port-holders",),
         pod={**_container(ports=[{"containerPort": 80, "hostPort": 4711}])}),
    Case("a cordoned node", "ksched-cordoned", "cordoned", objects=("cordoned",),
         pod={"nodeSelector": {"bed": "closed"}}),
    Case("an image that cannot be pulled", "kubelet-image-notfound", "does not exist", "STARTING", annotations={
        "bed/waiting": "ErrImagePull",
        "bed/message": 'failed to pull and unpack image "r.example/t:1": failed to resolve reference "r.example/t:1":'
                       " r.example/t:1: not found"}),
    Case("an image that waits to be pulled again", "kubelet-image-backoff", "could not be pulled", "STARTING",
         annotations={"bed/waiting": "ImagePullBackOff", "bed/message": 'Back-off pulling image "r.example/t:1"'}),
    Case("a secret that is not there", "kubelet-config-missing", "secret hub", "STARTING",
         annotations={"bed/waiting": "CreateContainerConfigError", "bed/message": 'secret "hub" not found'}),
    Case("a quota of Kueue that is in use", "kueue-waiting-quota", "are used by", gpus=True,
         objects=("queue", "holder"), site={"queue": "training"}),
    Case("a quota of Kueue that is too small", "kueue-exceeds-max", "can never", gpus=True, objects=("small-queue",),
         site={"queue": "training"}),
    Case("a resource that Kueue has no quota for", "kueue-resource-unavailable", "vpc.amazonaws.com/efa", gpus=True,
         objects=("queue-without-efa",), site={"queue": "training"}),
    Case("a queue that is not there", "kueue-", "nope", gpus=True, site={"queue": "nope"}),
]  # fmt: skip

FAILURES = [
    Case("an error of the user", "kubelet-exit-1", "exit code 1", "FAILED", annotations={"bed/exit": "1"}),
    Case("a wrong command line", "kubelet-exit-2", "command line", "FAILED", annotations={"bed/exit": "2"}),
    Case("a loss that is not finite", "k8s-non-finite", "not finite", "FAILED", annotations={"bed/exit": "76"}),
    Case("an out-of-memory kill", "kubelet-oomkilled", "more host memory", "FAILED", annotations={"bed/exit": "137"}),
    Case("a crash", "kubelet-exit-139", "segmentation fault", "FAILED", annotations={"bed/exit": "139"}),
    Case("a command that is not there", "kubelet-exit-127", "did not find the command", "FAILED",
         annotations={"bed/exit": "127"}),
    Case("a hung collective", "k8s-hung-collective", "never finished", "FAILED", annotations={"bed/exit": "77"}),
]  # fmt: skip


@pytest.fixture
def runs(kubernetes: Bed, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    return Runs(kubernetes, namespace, tmp_path)


@pytest.fixture
def leftovers(kubernetes: Bed, namespace: str) -> Iterator[None]:
    """Takes away what stands outside of the namespace."""
    yield
    for kind in ("clusterqueue", "resourceflavor"):
        kubernetes.kubectl("delete", kind, namespace, "--ignore-not-found", "--wait=false")
    kubernetes.kubectl("delete", "node", f"closed-{namespace}", "--ignore-not-found", "--wait=false")


@pytest.mark.ci
def test_what_no_node_has_is_told_in_a_sentence_on_fake_nodes(runs: Runs) -> None:
    """Story 6."""
    case = WAITS[0]
    state = _start(runs, case).until(lambda s: s.reason is not None and s.reason.id == case.reason, case.reason)
    assert state.reason is not None
    assert (state.phase, case.words in state.reason.sentence) == ("PENDING", True)


@pytest.mark.usefixtures("leftovers")
@pytest.mark.parametrize("case", WAITS[1:], ids=lambda case: case.name)
def test_why_a_run_on_fake_nodes_waits(runs: Runs, case: Case) -> None:
    for name in case.objects:
        _make(runs, name)
    run = _start(runs, case)
    state = run.until(lambda s: s.reason is not None and s.reason.id.startswith(case.reason), case.reason)
    assert state.reason is not None
    assert case.words in state.reason.sentence
    assert state.phase == case.phase


@pytest.mark.parametrize("case", FAILURES, ids=lambda case: case.name)
def test_why_a_run_on_fake_nodes_failed(runs: Runs, case: Case) -> None:
    state = _start(runs, case).until_phase("FAILED", "SUCCEEDED")
    assert state.reason is not None
    assert (state.phase, state.reason.id) == ("FAILED", case.reason)
    assert case.words in state.reason.sentence
    assert state.node is not None


def test_an_evicted_fake_pod_is_told_and_its_gang_goes_on(runs: Runs) -> None:
    message = "The node was low on resource: ephemeral-storage. Threshold quantity: 8Gi, available: 3Gi. "
    run = runs.start("jobset", pods={"train": {"bed/run": "3s", "bed/evicted": message}})
    state = run.until(lambda s: s.reason is not None and "ran full" in s.reason.sentence, "the eviction")
    assert state.reason is not None
    assert state.reason.class_ == "volume"


def test_a_more_important_fake_pod_takes_the_place_and_that_is_told(runs: Runs, kubernetes: Bed) -> None:
    for name, value in (("low", 1), ("high", 1000)):
        kubernetes.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                          "metadata": {"name": f"{name}-{runs.namespace}"}, "value": value})  # fmt: skip
    try:
        run = runs.start("jobset", gpus=True, pods={"train": LIVE},
                         site={"priority_class": f"low-{runs.namespace}"})  # fmt: skip
        run.until(lambda s: s.stage == "train" and s.phase == "RUNNING", "the pods of training")
        for number in range(4):  # every p4d node of the bed
            kubernetes.apply(_holder(runs.namespace, number, priority=f"high-{runs.namespace}"))
        state = run.until(lambda s: s.reason is not None and "more important" in s.reason.sentence, "the preemption")
        assert state.reason is not None
        assert state.reason.class_ in ("preempted", "capacity")
    finally:
        kubernetes.kubectl(
            "delete", "priorityclass", f"low-{runs.namespace}", f"high-{runs.namespace}", "--wait=false"
        )


def test_a_deadline_is_told_and_not_the_signal_that_it_sent(runs: Runs) -> None:
    run = runs.start("job", pods={"train": LIVE}, overrides={"Job": {"spec": {"activeDeadlineSeconds": 3}}})
    state = run.until_phase("FAILED", "SUCCEEDED")
    assert state.reason is not None
    assert (state.reason.id, state.reason.class_) == ("job-deadline", "timeout")


def test_an_object_that_somebody_deleted_is_told(runs: Runs, kubernetes: Bed) -> None:
    run = runs.start("jobset", pods={"train": LIVE})
    run.until_phase("RUNNING")
    kubernetes.kubectl("delete", "jobset", run.name, "-n", runs.namespace)
    state = run.until_phase("FAILED", "CANCELLED")
    assert state.reason is not None
    assert (state.phase, state.reason.id) == ("FAILED", "k8s-gone")


def _start(runs: Runs, case: Case) -> Run:
    annotations = {"train": case.annotations}
    return runs.start(
        case.kind, gpus=case.gpus, pods={**annotations, **_quick(case.gpus)}, pod=case.pod, site=case.site,
        retry={"user": 0, "infrastructure": 0},
    )  # fmt: skip


def _quick(gpus: bool) -> dict[str, dict[str, str]]:
    return {"prepare": {"bed/run": "1s"}} if gpus else {}


def _make(runs: Runs, name: str) -> None:
    bed, space = runs.bed, runs.namespace
    if name == "claim-no-class":
        spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "nope",
                "resources": {"requests": {"storage": "1Gi"}}}  # fmt: skip
        bed.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                   "metadata": {"name": "no-class", "namespace": space}, "spec": spec})  # fmt: skip
    elif name == "quota":
        bed.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small", "namespace": space},
                   "spec": {"hard": {"pods": "0"}}})  # fmt: skip
        path = "jsonpath={.status.hard.pods}"
        until(lambda: bed.kubectl("get", "quota", "small", "-n", space, "-o", path) == "0", "the quota to count")
    elif name == "port-holders":
        for number in range(2):
            bed.apply(_port_holder(space, number))
        bed.kubectl("wait", "pod", "-l", "bed=port", "-n", space, "--for=condition=Ready", "--timeout=60s")
    elif name == "cordoned":
        about = {"name": f"closed-{space}", "labels": {"bed": "closed"}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": about,
                "spec": {"unschedulable": True},
                "status": {"allocatable": {"cpu": "64", "memory": "500Gi", "pods": "100"}}}  # fmt: skip
        bed.apply(node)
    elif name.endswith("queue") or name == "queue-without-efa":
        bed.apply(*_queue(space, gpus=8 if name == "small-queue" else 16, efa=name != "queue-without-efa"))
        path = "jsonpath={.status.conditions[?(@.type=='Active')].status}"
        until(lambda: bed.kubectl("get", "clusterqueue", space, "-o", path) == "True", "the queue")
    elif name == "holder":
        job = _holder_job(space)
        bed.apply(job)
        bed.wait("job/holder", "jsonpath={.spec.suspend}=false", space)


def _queue(namespace: str, *, gpus: int, efa: bool) -> list[dict[str, Any]]:
    api = "kueue.x-k8s.io/v1beta2"
    amounts = {
        "nvidia.com/gpu": gpus,
        "cpu": 2000,
        "memory": "20000Gi",
        **({"vpc.amazonaws.com/efa": 8} if efa else {}),
    }
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()]
    # the bed's huge pages are asked for by pods on EFA
    more = [{"name": name, "nominalQuota": "1000Gi"} for name in ("hugepages-2Mi",)]
    groups = [{"coveredResources": [*amounts, "hugepages-2Mi"],
               "flavors": [{"name": namespace, "resources": [*resources, *more]}]}]  # fmt: skip
    return [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": namespace}, "spec": {}},
        {"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": namespace},
         "spec": {"namespaceSelector": {}, "resourceGroups": groups}},
        {"apiVersion": api, "kind": "LocalQueue", "metadata": {"name": "training", "namespace": namespace},
         "spec": {"clusterQueue": namespace}},
    ]  # fmt: skip


def _holder_job(namespace: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
           "restartPolicy": "Never", "nodeSelector": LABEL,
           "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}  # fmt: skip
    return {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "holder", "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "training"}},
        "spec": {"template": {"metadata": {"annotations": LIVE}, "spec": pod}},
    }  # fmt: skip


def _holder(namespace: str, number: int, *, priority: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "x:1", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
           "priorityClassName": priority, "nodeSelector": LABEL,
           "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"holder-{number}", "namespace": namespace},
            "spec": pod}  # fmt: skip


def _port_holder(namespace: str, number: int) -> dict[str, Any]:
    pod = {"containers": [{"name": "c", "image": "x:1", "ports": [{"containerPort": 80, "hostPort": 4711}]}],
           "nodeName": f"cpu-{number}"}  # fmt: skip
    about = {"name": f"port-{number}", "namespace": namespace, "labels": {"bed": "port"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": pod}
