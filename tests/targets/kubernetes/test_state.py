"""Where a run on Kubernetes stands and why, as a table over what the API server would say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fake_cluster import NOW, conditions, ended, event, pod

from trainwright.runs.failures import Failure
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.labels import STAGE
from trainwright.targets.kubernetes.pod_view import pod_view
from trainwright.targets.kubernetes.snapshot import Queue, Snapshot, Stage
from trainwright.targets.kubernetes.snapshot import event as event_value
from trainwright.targets.kubernetes.state import next_stage, state_of, wants

RUN = "demo-00000001"
NO_GPU = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: 4 No preemption victims found for incoming pod."  # noqa: E501  # one line in the API
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def jobset(**status: Any) -> Object:
    about = {"name": RUN, "uid": "u", "creationTimestamp": NOW}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": about,
        "spec": {},
        "status": status,
    }


def job(name: str = "train", **status: Any) -> Object:
    about = {"name": f"{RUN}-{name}", "uid": name, "creationTimestamp": NOW}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": about, "spec": {}, "status": status}


def seen(object_: Object | None, *pods: Object, events: tuple[Object, ...] = (), **fields: Any) -> Snapshot:
    parts = ("prepare", "train", "finish") if any(one["metadata"]["labels"][STAGE] != "train" for one in pods) else ()
    stage = Stage("train", "JobSet", RUN, object_, applied=True, holds_all=True, parts=parts)
    return Snapshot(
        RUN, RUN, "ml", (stage,), tuple(map(pod_view, pods)), tuple(map(event_value, events)), attempt=1, **fields
    )


def waiting(message: str = NO_GPU, **fields: Any) -> Object:
    status = {"conditions": [{**UNSCHEDULED, "message": message}]}
    return pod(RUN, "p0", phase="Pending", node=None, status=status, **fields)


def starting(reason: str, message: str, name: str = "p0") -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(RUN, name, phase="Pending", status={"containerStatuses": [{"name": "train", "state": state}]})


def disrupted(reason: str, message: str, **fields: Any) -> Object:
    status = {**ended(143), "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason,
                                            "message": message}]}  # fmt: skip
    return pod(RUN, "p0", status=status, **fields)


def told(code: int, **fields: Any) -> Object:
    message = json.dumps({"v": 1, "stage": "train", "attempt": 1, "node": 0, "code": code, **fields})
    return ended(code, message=message)


FAILED = jobset(
    conditions=conditions("Failed", reason="FailedJobs", message="jobset failed due to one or more job failures")
)
SUSPENDED = jobset(conditions=conditions("Suspended", reason="SuspendedJobs", message="jobset is suspended"))


def workload(message: str, reason: str = "Pending") -> Object:
    condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": message}
    return {"metadata": {"name": "jobset-demo"}, "spec": {"queueName": "team"}, "status": {"conditions": [condition]}}


WAITS = [
    (seen(jobset(), waiting()), "PENDING", "ksched-insufficient-device", "4 node(s)"),
    (seen(jobset(), waiting("0/2 nodes are available: 2 node(s) had untolerated taint {dedicated: infra}.")),
     "PENDING", "ksched-taint", "dedicated"),
    (seen(SUSPENDED), "PENDING", "k8s-suspended", "is suspended"),
    (seen(SUSPENDED, workloads=(workload(
        "couldn't assign flavors to pod set train: insufficient unused quota for nvidia.com/gpu in flavor h100,"
        " 8 more needed"),)), "PENDING", "kueue-waiting-quota", "8 more nvidia.com/gpu"),
    (seen(SUSPENDED, workloads=(workload(
        "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor h100,"
        " request > maximum capacity (64 > 32)"),)), "PENDING", "kueue-exceeds-max-old", "32"),
    (seen(SUSPENDED, workloads=(workload("a new wording of Kueue"),)), "PENDING", "kueue-", "a new wording"),
    (seen(jobset(), events=(event(
        "Job", f"{RUN}-train-0", "FailedCreate",
        'Error creating: pods "x" is forbidden: exceeded quota: team, requested: requests.nvidia.com/gpu=8,'
        " used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=8"),)),
     "PENDING", "job-resourcequota", "team"),
    (seen(jobset(), events=(event("Job", f"{RUN}-train-0", "FailedCreate", "Error creating: no such luck"),)),
     "PENDING", "k8s-create-refused", "no such luck"),
    (seen(jobset(), waiting(), events=(event(
        "Pod", "p0", "FailedScheduling",
        "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpu)",
        "karpenter"),)), "PENDING", "karpenter-limits", "limit"),
    (seen(jobset(), waiting(), events=(event("Pod", "p0", "Nominated", "Pod should schedule on: nodeclaim/gpu-abcde",
                                             "karpenter"),)),
     "PENDING", "ksched-insufficient-device", "being prepared"),
    (seen(jobset(), waiting(), events=(event(
        "Pod", "p0", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"),)),
     "PENDING", "ca-max-size", "maximum size"),
    (seen(jobset(), waiting(), events=(event(
        "NodeClaim", "gpu-1", "InsufficientCapacityError",
        "NodeClaim gpu-1 event: creating instance, insufficient capacity, with fleet error(s),"
        " VcpuLimitExceeded: You have requested more vCPU capacity than your current vCPU limit of 192 allows"
        " for the instance bucket that the specified instance type belongs to."),)),
     "PENDING", "ec2-vcpu", "192"),
    (seen(jobset(), waiting("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
          claims={}), "PENDING", "ksched-pvc-unbound", "claim"),
    (seen(jobset(), starting("ImagePullBackOff", 'Back-off pulling image "r.example/t:1"'), events=(event(
        "Pod", "p0", "Failed",
        'Failed to pull image "r.example/t:1": rpc error: code = NotFound desc = failed to pull and unpack image'
        ' "r.example/t:1": failed to resolve reference "r.example/t:1": r.example/t:1: not found'),)),
     "STARTING", "kubelet-image-notfound", "does not exist"),
    (seen(jobset(), starting("ImagePullBackOff", 'Back-off pulling image "r.example/t:1"')),
     "STARTING", "kubelet-image-backoff", "could not be pulled"),
    (seen(jobset(), starting("CreateContainerConfigError", 'secret "hub-token" not found')),
     "STARTING", "kubelet-config-missing", "hub-token"),
    (seen(jobset(), starting("ContainerCreating", ""), events=(event(
        "Pod", "p0", "FailedMount", 'MountVolume.SetUp failed for volume "cfg" : configmap "c" not found'),)),
     "STARTING", "kubelet-volume-secret", "cfg"),
    (seen(jobset(), pod(RUN, "p1", index=1), starting("ContainerCreating", "")),
     "STARTING", "k8s-starting", "1 of 2 pods run; p0 on n1"),
    (seen(jobset()), "PENDING", "k8s-no-pods", "has made no pods"),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "phase", "id_", "words"), WAITS)
def test_one_sentence_says_why_a_run_waits(snapshot: Snapshot, phase: str, id_: str, words: str) -> None:
    state = state_of(snapshot)
    assert state.phase == phase
    assert state.reason is not None
    assert state.reason.id.startswith(id_)
    assert words in state.reason.sentence
    assert state.reason.sentence.count("..") == 0


ENDS = [
    (seen(FAILED, pod(RUN, "p0", status=ended(137, "OOMKilled"))), "FAILED", "kubelet-oomkilled", "p0 on n1", None),
    (seen(FAILED, pod(RUN, "p0", status=told(1, rank=3, exception="ValueError: no such column",
                                             line="train.py:12", **{"class": "user"}))),
     "FAILED", "k8s-user-error", "rank 3: ValueError: no such column (train.py:12).", 3),
    (seen(FAILED, pod(RUN, "p0", status=ended(1, message="Traceback (most recent call last):\n"
                                              '  File "/w/train.py", line 3, in <module>\nKeyError: 0'))),
     "FAILED", "k8s-user-error", "KeyError: 0 (/w/train.py:3)", None),
    (seen(FAILED, pod(RUN, "p0", status=told(70, rank=1, exception=(
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, unhandled system error")))),
     "FAILED", "k8s-user-error", "NCCL error", 1),
    (seen(FAILED, pod(RUN, "p0", status=ended(3, message="/s cannot be used by user 1000: Permission denied\n"
                                              "may this user write there?"))),
     "FAILED", "k8s-user-error", "/s cannot be used by user 1000: Permission denied may this user", None),
    (seen(FAILED, pod(RUN, "p0", status=told(76))), "FAILED", "k8s-non-finite", "not finite", None),
    (seen(FAILED, pod(RUN, "p0", status=told(77))), "FAILED", "k8s-hung-collective", "never finished", None),
    (seen(FAILED, pod(RUN, "p0", status=ended(139))), "FAILED", "kubelet-exit-139", "segmentation fault", None),
    (seen(FAILED, pod(RUN, "p0", status=ended(127))), "FAILED", "kubelet-exit-127", "did not find the command", None),
    (seen(FAILED, pod(RUN, "p0", status=ended(3))), "FAILED", "k8s-crash", "exit code 3", None),
    (seen(FAILED, pod(RUN, "p0", phase="Failed", status={
        "phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory. Threshold quantity: 100Mi, available: 41268Ki. "})),
     "FAILED", "kubelet-evict-node", "memory", None),
    (seen(FAILED, disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")),
     "FAILED", "node-taint-evict", "p0 on n1", None),
    (seen(FAILED, disrupted("PreemptionByScheduler",
                            "default-scheduler: preempting to accommodate a higher priority pod")),
     "FAILED", "ksched-disruption-preempt", "more important", None),
    (seen(FAILED, disrupted("DeletionByPodGC", "PodGC: node no longer exists")),
     "FAILED", "node-podgc", "deleted", None),
    (seen(jobset(conditions=conditions("Failed", reason="DeadlineExceeded",
                                       message="Job was active longer than specified deadline")),
          pod(RUN, "p0", status=ended(143))), "FAILED", "job-deadline", "activeDeadlineSeconds", None),
    (seen(FAILED), "FAILED", "jobset-failedjobs", "child job failed", None),
    (seen(None), "FAILED", "k8s-gone", "is gone", None),
    (seen(None, cancelled=True, saved=8), "CANCELLED", "k8s-cancelled", "saved at step 8", None),
]  # fmt: skip


@pytest.mark.parametrize(("snapshot", "phase", "id_", "words", "rank"), ENDS)
def test_one_sentence_says_why_a_run_ended(
    snapshot: Snapshot, phase: str, id_: str, words: str, rank: int | None
) -> None:
    state = state_of(snapshot)
    assert state.phase == phase
    assert state.reason is not None
    assert (state.reason.id, state.rank) == (id_, rank)
    assert words in state.reason.sentence
    assert f"trainwright resume {RUN}" in state.reason.next_step


def test_the_pod_that_ended_first_is_to_blame_and_those_it_took_with_it_are_not() -> None:
    first = pod(RUN, "p1", index=1, node="n2", status=told(1, rank=9, exception="RuntimeError: boom"))
    first["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = "2026-12-01T10:00:05Z"
    echo = pod(
        RUN, "p0", status=told(75, **{"class": "resume"})
    )  # stopped because the other failed; a second earlier
    state = state_of(seen(FAILED, echo, first))
    assert state.reason is not None
    assert "boom" in state.reason.sentence
    assert (state.rank, state.node) == (9, "n2")


def test_a_lost_node_explains_the_connections_that_its_neighbours_lost() -> None:
    lost = disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", node="n2")
    other = pod(
        RUN, "p1", index=1, status=told(70, rank=0, exception="RuntimeError: Connection closed by peer [::1]:5")
    )
    state = state_of(seen(FAILED, lost, other))
    assert state.reason is not None
    assert (state.reason.class_, state.node) == ("node-lost", "n2")


def test_the_exception_in_the_log_is_told_when_the_pod_only_has_an_exit_code() -> None:
    snapshot = seen(
        FAILED, pod(RUN, "p0", status=ended(1)), failure=Failure("OSError: no space", "train.py:9", 2, "rank-2.log")
    )
    state = state_of(snapshot)
    assert state.reason is not None
    assert state.reason.sentence == "rank 2: OSError: no space (train.py:9)."


def test_who_holds_the_quota_is_told() -> None:
    message = (
        "couldn't assign flavors to pod set train: insufficient unused quota for nvidia.com/gpu in flavor h100,"
        " 8 more needed"
    )
    snapshot = seen(SUSPENDED, workloads=(workload(message),))
    assert wants(snapshot, state_of(snapshot)) == {"queue"}
    queue = Queue("gpus", {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 6}, (("other", {"nvidia.com/gpu": 6}),))
    reason = state_of(replace(snapshot, queue=queue)).reason
    assert reason is not None
    assert "6 of 8 nvidia.com/gpu in gpus are used by other (6)" in reason.sentence


@pytest.mark.parametrize(
    ("allocatable", "words"),
    [
        ({"nvidia.com/gpu": "8"}, "asks for 16 nvidia.com/gpu, but the largest node has 8"),
        ({}, "No node of the cluster"),
    ],
)
def test_what_no_node_has_is_told_as_never(allocatable: dict[str, str], words: str) -> None:
    wants_16 = {"containers": [{"name": "train", "resources": {"limits": {"nvidia.com/gpu": "16"}}}]}
    snapshot = seen(jobset(), waiting(spec=wants_16))
    assert wants(snapshot, state_of(snapshot)) == {"nodes"}
    nodes = ({"metadata": {"name": "n"}, "status": {"allocatable": allocatable}},)
    reason = state_of(replace(snapshot, nodes=nodes)).reason
    assert reason is not None
    assert words in reason.sentence
    assert reason.retry == "none"


@pytest.mark.parametrize(
    ("claim", "id_"),
    [
        (None, "k8s-claim-missing"),
        ({"status": {"phase": "Lost"}}, "k8s-claim-lost"),
        ({"spec": {"storageClassName": "efs"}, "status": {"phase": "Pending"}}, "k8s-claim-first-consumer"),
    ],
)
def test_what_a_claim_waits_for_is_told(claim: Object | None, id_: str) -> None:
    uses = {"containers": [{"name": "t"}], "volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
    said = event("PersistentVolumeClaim", "data", "WaitForFirstConsumer", "waiting for first consumer to be created")
    text = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    snapshot = seen(jobset(), waiting(text, spec=uses), events=(said,))
    assert wants(snapshot, state_of(snapshot)) == {"claims"}
    reason = state_of(replace(snapshot, claims={"data": claim})).reason
    assert reason is not None
    assert reason.id == id_
    assert "claim data" in reason.sentence


def test_a_run_is_as_far_as_its_stages() -> None:
    stages = (
        Stage("prepare", "Job", f"{RUN}-prepare", job("prepare", conditions=conditions("Complete")), applied=True),
        Stage("train", "Job", RUN, None),
        Stage("finish", "Job", f"{RUN}-finish", None),
    )
    snapshot = Snapshot(RUN, RUN, "ml", stages, attempt=1)
    following = next_stage(snapshot)
    assert following is not None
    assert following.name == "train"
    assert state_of(snapshot).phase == "PENDING"
    done = tuple(replace(stage, done=True) for stage in stages)
    assert state_of(replace(snapshot, stages=done)).phase == "SUCCEEDED"
    assert next_stage(replace(snapshot, stages=done)) is None


@pytest.mark.parametrize(
    ("pods", "phase", "stage"),
    [
        ((pod(RUN, "a", stage="prepare"),), "STARTING", "prepare"),
        ((pod(RUN, "a", stage="prepare", status=ended(0, "Completed")), pod(RUN, "b")), "RUNNING", "train"),
        ((pod(RUN, "b"), pod(RUN, "c", index=1, status=ended(0, "Completed"))), "RUNNING", "train"),
        ((pod(RUN, "b", status=ended(0, "Completed")), pod(RUN, "d", stage="finish")), "RUNNING", "finish"),
        ((pod(RUN, "a", stage="prepare", status=ended(0, "Completed")),), "PENDING", "train"),
    ],
)
def test_an_object_that_holds_all_stages_is_at_the_one_whose_pods_run(
    pods: tuple[Object, ...], phase: str, stage: str
) -> None:
    state = state_of(seen(jobset(), *pods))
    assert (state.phase, state.stage) == (phase, stage)


def test_a_restarted_run_says_what_ended_the_attempt_before() -> None:
    before = replace(pod_view(pod(RUN, "old", status=ended(137, "OOMKilled"))), gone=True)
    snapshot = seen(jobset(restarts=1), pod(RUN, "new"))
    snapshot = replace(snapshot, pods=(before, *snapshot.pods), attempt=2)
    state = state_of(snapshot)
    assert state.phase == "RUNNING"
    assert state.reason is not None
    assert (state.reason.id, state.reason.class_) == ("k8s-restarted", "oom")


def test_what_a_run_has_cost_is_told_while_it_waits_too() -> None:
    state = state_of(seen(jobset(), waiting(), price=32.77, spent_hours=2.0))
    assert state.cost == 65.54
    assert state_of(seen(jobset(), waiting())).cost is None


def test_of_the_nodes_that_are_meant_it_is_told_what_closes_them() -> None:
    text = (
        "0/10 nodes are available: 2 node(s) didn't match Pod's node affinity/selector,"
        " 8 node(s) had untolerated taint {nvidia.com/gpu: present}."
    )
    snapshot = seen(jobset(), waiting(text, spec={"containers": [{"name": "t"}], "nodeSelector": {"pool": "gpu"}}))
    assert wants(snapshot, state_of(snapshot)) == {"nodes"}
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    nodes = [
        {"metadata": {"name": "g", "labels": {"pool": "gpu"}}, "spec": {"taints": [taint]}},
        {"metadata": {"name": "c", "labels": {"pool": "cpu"}}},
    ]
    reason = state_of(replace(snapshot, nodes=tuple(nodes))).reason
    assert reason is not None
    assert (reason.id, reason.sentence[:10]) == ("ksched-taint", "1 node(s) ")
    nodes[0]["spec"] = {"unschedulable": True}
    reason = state_of(replace(snapshot, nodes=tuple(nodes))).reason
    assert reason is not None
    assert reason.id == "ksched-cordoned"
    nodes[0]["metadata"] = {"name": "g"}
    reason = state_of(replace(snapshot, nodes=tuple(nodes))).reason
    assert reason is not None
    assert reason.id == "ksched-affinity"


def test_what_ended_the_attempt_before_is_told_first_while_the_next_one_waits() -> None:
    before = replace(pod_view(disrupted("DeletionByPodGC", "PodGC: node no longer exists")), gone=True)
    snapshot = seen(jobset(restarts=1), waiting())
    reason = state_of(replace(snapshot, pods=(before, *snapshot.pods), attempt=2)).reason
    assert reason is not None
    assert reason.id == "ksched-insufficient-device"
    assert reason.sentence.index("node of the pod was deleted") < reason.sentence.index("4 node(s)")


def test_of_a_pod_that_nobody_saw_end_it_is_told_what_became_of_its_node() -> None:
    gone = replace(pod_view(pod(RUN, "old", node="n7")), gone=True, running=False)
    removed = event("Node", "n7", "RemovingNode", "Node n7 event: Removing Node n7 from Controller")
    snapshot = seen(jobset(restarts=1), pod(RUN, "new"), events=(removed,))
    reason = state_of(replace(snapshot, pods=(gone, *snapshot.pods), attempt=2)).reason
    assert reason is not None
    assert (reason.id, reason.class_) == ("k8s-restarted", "node-lost")
    assert "old on n7" in reason.sentence
