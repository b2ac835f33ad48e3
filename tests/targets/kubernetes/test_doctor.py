"""What a cluster lacks for a run is told line by line, each with its fix."""

from __future__ import annotations

from typing import Any

import pytest
from fake_cluster import FakeCluster

from trainwright.errors import SystemUnreachable
from trainwright.spec.site import KubernetesSite
from trainwright.targets.doctor import Check, listing, passes
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.doctor import examine
from trainwright.targets.kubernetes.labels import STAGE
from trainwright.targets.kubernetes.needs import Needs, needs_of
from trainwright.targets.kubernetes.submission import Placed

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"


def objects(**pod: Any) -> list[Placed]:
    resources = {"limits": {GPU: 8, EFA: 4, "cpu": "90", "memory": "1000Gi"}}
    secret = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    spec: Object = {
        "containers": [{"name": "train", "resources": resources, "env": [secret]}],
        "nodeSelector": {"pool": "gpu"}, "tolerations": [{"key": GPU, "operator": "Exists"}],
        "volumes": [{"name": "s", "persistentVolumeClaim": {"claimName": "fsx"}}],
        "imagePullSecrets": [{"name": "pull"}], "serviceAccountName": "trainer", **pod,
    }  # fmt: skip
    template = {"metadata": {"labels": {STAGE: "train"}}, "spec": spec}
    jobset: Object = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"name": "demo", "labels": {STAGE: "pipeline", "kueue.x-k8s.io/queue-name": "team"}},
        "spec": {"replicatedJobs": [{"name": "t", "template": {"spec": {"parallelism": 2, "template": template}}}]},
    }  # fmt: skip
    config: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "demo-config"}}
    return [Placed("config.yaml", "config", config), Placed("train.yaml", "pipeline", jobset)]


def needs(**pod: Any) -> Needs:
    return needs_of(objects(**pod), [("jobset.x-k8s.io/v1alpha2", "JobSet")], KubernetesSite())


def node(number: int, **changes: Any) -> Object:
    allocatable = {GPU: "8", EFA: "4", "cpu": "95", "memory": "1100Gi"}
    return {
        "kind": "Node", "metadata": {"name": f"n{number}", "labels": {"pool": "gpu"}},
        "spec": {"taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}]},
        "status": {"allocatable": {**allocatable, **changes}},
    }  # fmt: skip


@pytest.fixture
def cluster() -> FakeCluster:
    """A cluster that has everything."""
    found = FakeCluster()
    found.create = lambda review: {"status": {"allowed": True}}  # type: ignore[method-assign]
    for kind, name in (("Namespace", "ml"), ("Secret", "hub"), ("Secret", "pull"), ("ServiceAccount", "trainer")):
        found.put({"kind": kind, "metadata": {"name": name}})
    claim = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    found.put({"kind": "PersistentVolumeClaim", "metadata": {"name": "fsx"}, **claim})
    found.put({"kind": "LocalQueue", "metadata": {"name": "team"}, "spec": {"clusterQueue": "gpus"}})
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in (
        (GPU, 16), (EFA, 8), ("cpu", 200), ("memory", "4000Gi"))]  # fmt: skip
    spec = {"resourceGroups": [{"flavors": [{"name": "f", "resources": quotas}]}]}
    found.put({"kind": "ClusterQueue", "metadata": {"name": "gpus"}, "spec": spec})
    found.put({"kind": "Service", "metadata": {"name": "kube-dns", "labels": {"k8s-app": "kube-dns"}}})
    for number in range(2):
        found.put(node(number))
    return found


def told(cluster: FakeCluster, **pod: Any) -> dict[str, Check]:
    return {one.what: one for one in examine(cluster, needs(**pod)) if one.state != "ok"}


def test_a_cluster_that_has_everything_passes(cluster: FakeCluster) -> None:
    checks = examine(cluster, needs())
    assert {one.state for one in checks} == {"ok"}
    assert passes(checks)
    whats = {one.what for one in checks}
    assert {GPU, EFA, "nodes for train", "queue team", "claim fsx", "DNS", "permissions", "JobSet"} <= whats


def test_whatever_is_taken_away_is_missed_by_name(cluster: FakeCluster) -> None:
    for kind, name, what in (
        ("Secret", "hub", "Secret hub"), ("Secret", "pull", "Secret pull"),
        ("ServiceAccount", "trainer", "ServiceAccount trainer"), ("PersistentVolumeClaim", "fsx", "claim fsx"),
        ("LocalQueue", "team", "queue team"), ("ClusterQueue", "gpus", "cluster queue gpus"),
        ("Service", "kube-dns", "DNS"),
    ):  # fmt: skip
        kept = cluster.objects.pop((kind, name))
        found = told(cluster)
        assert list(found) == [what]
        assert found[what].state == "missing"
        assert found[what].fix
        cluster.objects[kind, name] = kept


def test_without_its_namespace_nothing_else_is_asked(cluster: FakeCluster) -> None:
    del cluster.objects["Namespace", "ml"]
    checks = examine(cluster, needs())
    assert [one.what for one in checks] == ["namespace ml"]
    assert "kubectl create namespace ml" in listing(checks)


@pytest.mark.parametrize(
    ("change", "what", "words"),
    [
        ({EFA: "0"}, EFA, "no node offers it"),
        ({GPU: "4"}, "nodes for train", "2 lack nvidia.com/gpu"),
        ({"memory": "100Gi"}, "nodes for train", "2 lack memory"),
    ],
)
def test_nodes_that_are_too_small_are_told_by_what_they_lack(
    cluster: FakeCluster, change: dict[str, str], what: str, words: str
) -> None:
    for number in range(2):
        cluster.put(node(number, **change))
    found = told(cluster)
    assert words in found[what].detail
    assert found[what].state == "missing"


def test_a_taint_that_is_not_tolerated_and_a_label_that_is_not_there_are_told(cluster: FakeCluster) -> None:
    assert "2 have taint nvidia.com/gpu" in told(cluster, tolerations=[])["nodes for train"].detail
    assert "2 lack label pool=cpu" in told(cluster, nodeSelector={"pool": "cpu"})["nodes for train"].detail


def test_a_queue_that_could_never_admit_the_run_is_told(cluster: FakeCluster) -> None:
    flavors = cluster.objects["ClusterQueue", "gpus"]["spec"]["resourceGroups"][0]["flavors"]
    flavors[0]["resources"] = [one for one in flavors[0]["resources"] if one["name"] != EFA]
    assert "has no quota for vpc.amazonaws.com/efa" in told(cluster)["cluster queue gpus"].detail
    flavors[0]["resources"][0]["nominalQuota"] = 8
    whats = [one.detail for one in examine(cluster, needs()) if one.what == "cluster queue gpus"]
    assert "gives 8 nvidia.com/gpu, the run needs 16" in whats


def test_a_claim_that_one_node_only_can_write_is_told(cluster: FakeCluster) -> None:
    cluster.objects["PersistentVolumeClaim", "fsx"]["spec"]["accessModes"] = ["ReadWriteOnce"]
    assert "2 nodes write to it" in told(cluster)["claim fsx"].detail


def test_a_namespace_quota_is_compared_with_what_is_used(cluster: FakeCluster) -> None:
    status = {"hard": {"requests.nvidia.com/gpu": "16"}, "used": {"requests.nvidia.com/gpu": "8"}}
    cluster.put({"kind": "ResourceQuota", "metadata": {"name": "team"}, "status": status})
    found = told(cluster)["quota team"]
    assert (found.state, found.detail) == (
        "warning", "requests.nvidia.com/gpu: the run needs 16, 8 of 16 are used")  # fmt: skip


def test_each_permission_that_is_denied_is_named_with_its_rule(cluster: FakeCluster) -> None:
    def answer(review: Object) -> Object:
        about = review["spec"]["resourceAttributes"]
        denied = about["verb"] == "patch" and about["resource"] == "jobsets"
        return {"status": {"allowed": not denied}}

    cluster.create = answer  # type: ignore[method-assign]
    found = told(cluster)
    assert list(found) == ["permission to patch jobsets.jobset.x-k8s.io"]
    assert "verbs: [patch]" in next(iter(found.values())).fix


def test_what_may_not_be_read_is_unknown_and_not_missing(cluster: FakeCluster) -> None:
    cluster.refuse["list Node"] = SystemUnreachable("ada may not list nodes", "ask")
    found = told(cluster)
    assert {name: one.state for name, one in found.items()} == {"nodes": "unknown"}


def test_without_a_spec_the_site_alone_is_looked_at(cluster: FakeCluster) -> None:
    site = KubernetesSite.model_validate({"queue": "nope", "claims": [{"name": "fsx", "path": "/s"}]})
    cluster.put({"kind": "ServiceAccount", "metadata": {"name": "default"}})
    cluster.put({"kind": "Node", "metadata": {"name": "cpu"}})
    checks = examine(cluster, needs_of([], [("trainer.kubeflow.org/v1alpha1", "TrainJob")], site))
    missing = {one.what: one for one in checks if one.state == "missing"}
    assert set(missing) == {"TrainJob", "queue nope"}
    assert "name one of team" in missing["queue nope"].fix
    assert "helm install kubeflow-trainer" in missing["TrainJob"].fix
