"""Why a run waits: of all that the cluster says, the outermost gate, in one sentence. Pure.

Nothing behind the outermost gate has been tried yet, so it alone counts: no pod could be made > the queue > the
scheduler > the supply of nodes (which explains the scheduler) > the start of a node > the start of the pod > the rest
of the gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainwright.runs.state import Reason, ended
from trainwright.targets.kubernetes.amounts import closed, room
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.outcome import outcome
from trainwright.targets.kubernetes.pod_view import PodView, Waits
from trainwright.targets.kubernetes.snapshot import Event, Queue, Snapshot, Stage
from trainwright.targets.reasons import Match, explain, match, provisioning, scheduling

#: Classes that no waiting changes: then what the node supply says is the whole answer.
_FINAL = ("quota", "constraint", "permission", "config", "volume")
_NORMAL_WAITS = ("ContainerCreating", "PodInitializing", "")
#: Refusals by labels, taints and cordons: the message mixes nodes that were meant with those that never were.
CLOSED = ("ksched-affinity", "ksched-taint", "ksched-taint-plain", "ksched-cordoned")
_SUPPLY = ("karpenter", "cluster-autoscaler")


def why_waiting(seen: Snapshot, stage: Stage, pods: Sequence[PodView]) -> Reason | None:
    """The one reason why this stage's pods do not all run; None when nothing says one."""
    return next(_gates(seen, stage, pods), None)


def _gates(seen: Snapshot, stage: Stage, pods: Sequence[PodView]) -> Iterator[Reason]:
    queued = list(_queued(seen, stage))
    if not pods:
        yield from _not_created(seen, stage)
    yield from queued
    waiting = [pod for pod in pods if pod.phase == "Pending" and not pod.deleting]
    yield from _unscheduled(seen, [pod for pod in waiting if pod.node is None])
    yield from _not_started(seen, [pod for pod in waiting if pod.node is not None])
    crashing = [pod for pod in pods if any(one.reason == "CrashLoopBackOff" for one in pod.waits)]
    yield from _not_started(seen, crashing)
    yield from _incomplete(pods)


def _not_created(seen: Snapshot, stage: Stage) -> Iterator[Reason]:
    """No pod exists, and a controller says that it may not make one."""
    refused = [one for one in seen.events if one.reason in ("FailedCreate", "FailedCreatePod", "ValidationError")]
    for one in reversed(refused):
        text = one.message if one.message.startswith("Error creating") else f"Error creating: {one.message}"
        for system, words in (("kubernetes-job", text), ("mpijob", one.message), ("jobset", one.message)):
            found = match(system, words)
            if found is not None and found.state in ("pending", "failed"):
                yield found.reason
                return
        yield Reason(
            "k8s-create-refused", "unknown", _ended(f"No pod can be made: {one.message}"), "", raw=one.message
        )
        return
    warned = [one for one in seen.events if one.about == (stage.kind, stage.object_name) and one.warning]
    if warned and not seen.pods:  # once there were pods, it has got over it
        one = warned[-1]
        text = f"The controller of {stage.kind} {stage.object_name} cannot go on ({one.reason}): {one.message}"
        next_step = f"kubectl -n {seen.namespace} describe {stage.kind.lower()} {stage.object_name}"
        yield Reason("k8s-controller-warns", "config", _ended(text), next_step, raw=one.message)
        return
    if stage.object_ is not None:
        conditions = (stage.object_.get("status") or {}).get("conditions") or ()
        for one in conditions:
            found = match("trainjob", str(one.get("message") or "")) if stage.kind == "TrainJob" else None
            if found is not None and found.role == "cause":
                yield found.reason
                return


def _queued(seen: Snapshot, stage: Stage) -> Iterator[Reason]:
    """Kueue or Volcano has not let the job in."""
    for workload in seen.workloads:
        reason = _kueue(seen, workload)
        if reason is not None:
            yield reason
            return
    for group in seen.pod_groups:
        status = group.get("status") or {}
        if status.get("phase") in ("Running", "Completed"):
            continue
        said = [
            str(one.get("message"))
            for one in status.get("conditions") or ()
            if one.get("type") == "Unschedulable" and one.get("status") == "True" and one.get("message")
        ]
        said += [one.message for one in seen.events if one.kind == "PodGroup" and one.reason == "Unschedulable"]
        for text in reversed(said):
            yield explain("volcano", text)
            return
    if stage.object_ is not None and outcome(stage.object_).fate == "suspended" and not seen.workloads:
        labels = (stage.object_.get("metadata") or {}).get("labels") or {}
        queue = labels.get("kueue.x-k8s.io/queue-name")
        if queue:
            text = f"The job waits for queue {queue}; Kueue has not looked at it yet."
            next_step = f"kubectl -n {seen.namespace} get localqueue {queue}"
            yield Reason("k8s-queue-silent", "dependency", text, next_step, "after-wait")
        else:
            text = f"{stage.kind} {stage.object_name} is suspended."
            next_step = f"kubectl -n {seen.namespace} describe {stage.kind.lower()} {stage.object_name}"
            yield Reason("k8s-suspended", "dependency", text, next_step, "after-wait")


def _kueue(seen: Snapshot, workload: Object) -> Reason | None:
    """What a Workload waits for; None when it is admitted."""
    conditions = {one.get("type"): one for one in (workload.get("status") or {}).get("conditions") or ()}
    if _is(conditions, "Admitted") or _is(conditions, "Finished"):
        return None
    reserved = conditions.get("QuotaReserved") or {}
    evicted = conditions.get("Evicted") or {}
    texts = [str(reserved.get("message") or "")] if reserved.get("status") != "True" else []
    if _is(conditions, "QuotaReserved"):
        checks = (workload.get("status") or {}).get("admissionChecks") or ()
        texts += [
            str(one.get("message") or "") for one in checks if one.get("state") in ("Pending", "Retry", "Rejected")
        ]
    name = str((workload.get("metadata") or {}).get("name"))
    texts += [
        one.message for one in reversed(seen.events) if one.about == ("Workload", name) and one.reason == "Pending"
    ]
    texts += [str(evicted.get("message") or "")] if _is(conditions, "Evicted") else []
    known = [found for text in texts if text and (found := match("kueue", text)) is not None]
    cause = next((one for one in known if one.role == "cause"), known[0] if known else None)
    if cause is not None:
        return _with_holders(cause, seen.queue)
    text = next((one for one in texts if one), "Kueue has not looked at the job yet")
    return Reason("kueue-unknown", "quota", _ended(text), "kubectl describe workload " + name, "after-wait", text)


def _with_holders(found: Match, queue: Queue | None) -> Reason:
    """Who holds the quota that is missing, when that can be seen."""
    resource = found.groups.get("resource")
    if queue is None or not resource or resource not in queue.nominal:
        return found.reason
    total, used = queue.nominal[resource], queue.used.get(resource, 0)
    holders = sorted(((holds[resource], name) for name, holds in queue.holders if holds.get(resource)), reverse=True)
    by = ", ".join(f"{name} ({count})" for count, name in holders[:3])
    tail = f"; {used} of {total} {resource} in {queue.name} are used" + (f" by {by}" if by else "")
    return replace(found.reason, sentence=ended(found.reason.sentence.rstrip(".") + tail))


def _unscheduled(seen: Snapshot, pods: Sequence[PodView]) -> Iterator[Reason]:
    """No node was found for a pod; what brings new nodes may say why."""
    if not pods:
        return
    said = [_scheduler_says(seen, pod) for pod in pods]
    texts = [(text, pod) for text, pod in zip(said, pods, strict=True) if text]
    supply = next(_supply(seen, pods), None)
    if not texts:
        if supply is not None:
            yield supply.reason
        return
    # a pod that is merely gated says less than one that was refused
    text, pod = next(((t, p) for t, p in texts if not p.gated), texts[0])
    found = scheduling(text)
    if found is None:
        reason = explain("kube-scheduler", text)
    else:
        reason = _told_better(seen, pod, found)
    if supply is None:
        yield reason
    elif supply.role != "info" and (supply.reason.class_ in _FINAL or supply.entry.system == "ec2"):
        yield replace(supply.reason, raw=supply.reason.raw or reason.raw)
    else:
        yield replace(reason, sentence=f"{reason.sentence} {supply.reason.sentence}")


def _scheduler_says(seen: Snapshot, pod: PodView) -> str:
    if pod.unscheduled:
        return pod.unscheduled
    for one in reversed(seen.events):
        if one.about == ("Pod", pod.name) and one.reason == "FailedScheduling" and one.source not in _SUPPLY:
            return one.message
    return ""


def _told_better(seen: Snapshot, pod: PodView, found: Match) -> Reason:
    """With what the pod's claims and the nodes' sizes say, where the scheduler only counts nodes."""
    reason = found.reason
    if found.entry.class_ == "volume" and seen.claims is not None:
        for name in pod.claims:
            told = _claim(seen, name)
            if told is not None:
                return replace(told, raw=reason.raw)
    if found.entry.id in ("ksched-insufficient-device", "ksched-insufficient-basic") and seen.nodes is not None:
        resource = found.groups.get("resource", "")
        told_room = room(resource, dict(pod.devices).get(resource), seen.nodes, seen.holders)
        if told_room:
            never = told_room.never
            sentence = told_room.sentence if never else f"{reason.sentence.rstrip('.')}: {told_room.sentence}"
            next_step = told_room.next_step if never else reason.next_step
            retry = "none" if never else reason.retry
            return replace(reason, sentence=_ended(sentence), next_step=next_step, retry=retry)
    if found.entry.id in CLOSED and seen.nodes is not None:
        words = closed(seen.nodes, dict(pod.selector), pod.tolerations)
        better = match("kube-scheduler", words) if words is not None else None
        if better is not None:
            return replace(better.reason, raw=reason.raw)
    return reason


def _claim(seen: Snapshot, name: str) -> Reason | None:
    """Why a claim keeps a pod waiting; None when it is bound."""
    claim = (seen.claims or {}).get(name)
    if claim is None:
        text = f"The claim {name} does not exist in namespace {seen.namespace}."
        next_step = f"create it, or name another under kubernetes.claims: kubectl -n {seen.namespace} get pvc"
        return Reason("k8s-claim-missing", "volume", text, next_step)
    phase = (claim.get("status") or {}).get("phase")
    if phase == "Bound":
        return None
    if phase == "Lost":
        text = f"The volume of claim {name} is gone."
        return Reason("k8s-claim-lost", "volume", text, "restore the volume, or use another claim")
    said = [one for one in seen.events if one.about == ("PersistentVolumeClaim", name)]
    failed = next((one for one in reversed(said) if one.reason in ("ProvisioningFailed", "FailedBinding")), None)
    class_ = (claim.get("spec") or {}).get("storageClassName")
    if failed is not None:
        text = f"The claim {name} gets no volume: {failed.message}"
        next_step = f"kubectl -n {seen.namespace} describe pvc {name}"
        return Reason("k8s-claim-unbound", "volume", _ended(text), next_step, raw=failed.message)
    if any(one.reason == "WaitForFirstConsumer" or "waiting for first consumer" in one.message for one in said):
        text = f"The claim {name} waits for its first pod to be placed, and the pod for a node"
        text += f" that storage class {class_} can reach." if class_ else "."
        return Reason(
            "k8s-claim-first-consumer", "volume", text, "look at the zones of nodes and storage", "after-wait"
        )
    text = f"The claim {name} is not bound to a volume yet" + (f" (storage class {class_})." if class_ else ".")
    next_step = f"kubectl -n {seen.namespace} describe pvc {name}"
    return Reason("k8s-claim-pending", "volume", text, next_step, "after-wait")


def _supply(seen: Snapshot, pods: Sequence[PodView]) -> Iterator[Match]:
    """What Karpenter or the cluster autoscaler does about these pods: causes first, then what is under way."""
    names = {pod.name for pod in pods}
    about = [one for one in reversed(seen.events) if one.kind == "Pod" and one.name in names]
    found: list[Match] = []
    for one in about:
        if one.reason in ("NotTriggerScaleUp", "TriggeredScaleUp"):
            hit = match("cluster-autoscaler", one.message)
        elif one.source == "karpenter" or one.message.startswith(
            ("Failed to schedule pod, ", "Pod should schedule on")
        ):
            hit = provisioning(one.message)
        else:
            continue
        found += [hit] if hit is not None else []
    claims = {str((one.get("metadata") or {}).get("name")) for one in seen.node_claims}
    for one in reversed(seen.events):
        if one.kind == "NodeClaim" and (not claims or one.name in claims):
            hit = provisioning(one.message)
            found += [hit] if hit is not None else []
    for claim in seen.node_claims:
        conditions = (claim.get("status") or {}).get("conditions") or ()
        for one_ in conditions:
            if one_.get("status") in ("Unknown", "False") and one_.get("type") in (
                "Launched",
                "Registered",
                "Initialized",
            ):
                hit = provisioning(str(one_.get("message") or ""))
                found += [hit] if hit is not None else []
    causes = [one for one in found if one.role == "cause"]
    yield from causes or [one for one in found if one.role == "wrapper"] or found


def _not_started(seen: Snapshot, pods: Sequence[PodView]) -> Iterator[Reason]:
    """Pods on a node that do not start: volumes, images, configuration, init containers."""
    found: list[Match] = []
    for pod in pods:
        said = [one for one in seen.events if one.about == ("Pod", pod.name)]
        for wait in pod.waits:
            found += _of_container(wait, said)
        found += _of_pod(said)
    best = min(found, key=lambda one: ("cause", "wrapper", "symptom", "info").index(one.role), default=None)
    if best is not None:
        yield best.reason
        return
    odd = [wait for pod in pods for wait in pod.waits if wait.reason not in _NORMAL_WAITS]
    for wait in odd:
        text = f"Container {wait.container} does not start ({wait.reason}): {wait.message}".rstrip(": ")
        yield Reason("kubelet-unknown", "unknown", _ended(text), "", raw=wait.message)
        return


def _of_container(wait: Waits, said: Iterable[Event]) -> list[Match]:
    if wait.reason in _NORMAL_WAITS:
        return []
    texts = [wait.message]
    if "ImagePull" in wait.reason:  # the back-off message hides why; the event before it tells
        texts += [one.message for one in said if one.reason == "Failed" and "pull" in one.message]
    return [found for text in texts if text and (found := match("kubelet", text)) is not None]


def _of_pod(said: Iterable[Event]) -> list[Match]:
    wanted = (
        "FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "NetworkNotReady", "FailedMapVolume",
    )  # fmt: skip
    texts = [one.message for one in said if one.reason in wanted]
    return [found for text in texts if (found := match("kubelet", text)) is not None]


def _incomplete(pods: Sequence[PodView]) -> Iterator[Reason]:
    """Some run and some do not, and nothing says why."""
    running = sum(pod.running for pod in pods)
    starting = [pod for pod in pods if pod.phase == "Pending"]
    if not starting:
        return
    first = min(starting, key=lambda pod: pod.name)
    init = next((wait.container for wait in first.waits if wait.init), None)
    what = f"its init container {init} has to finish" if init else "its containers are being created"
    where = f" on {first.node}" if first.node else ""
    text = f"{running} of {len(pods)} pods run; {first.name}{where} is starting: {what}."
    yield Reason("k8s-starting", "dependency", text, "", "after-wait")


def _is(conditions: Mapping[Any, Mapping[str, Any]], type_: str) -> bool:
    return (conditions.get(type_) or {}).get("status") == "True"


def _ended(sentence: str) -> str:
    text = " ".join(sentence.split())
    return text if text.endswith((".", "!", "?")) else f"{text}."
