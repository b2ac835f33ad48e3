"""What became of one training object, in the same words for every kind. Pure: the object in, ``Outcome`` out.

Each kind says it in its own way: conditions, a phase, a deployment status. What they mean is one small table each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.pod_view import seconds

Fate = Literal["live", "suspended", "done", "failed"]


@dataclass(frozen=True)
class Outcome:
    """``system`` is whose messages ``message`` is one of, in the table of reasons."""

    fate: Fate
    system: str
    reason: str = ""
    message: str = ""
    restarts: int = 0
    at: float | None = None


@dataclass(frozen=True)
class _Words:
    """Condition types of one kind."""

    system: str
    done: str
    failed: str = "Failed"
    suspended: str = "Suspended"


_BY_CONDITION = {
    "Job": _Words("kubernetes-job", "Complete"),
    "JobSet": _Words("jobset", "Completed"),
    "TrainJob": _Words("trainjob", "Complete"),
    "MPIJob": _Words("mpijob", "Succeeded"),
    "PyTorchJob": _Words("pytorchjob", "Succeeded"),
}
_VOLCANO: dict[str, Fate] = {
    "Completed": "done", "Failed": "failed", "Aborted": "failed", "Terminated": "failed", "Completing": "live",
}  # fmt: skip
_RAY: dict[str, Fate] = {
    "Complete": "done",
    "Failed": "failed",
    "ValidationFailed": "failed",
    "Suspended": "suspended",
}


def outcome(object_: Object) -> Outcome:
    """What became of it so far. A kind that nothing is known of is live for ever."""
    kind, group = str(object_.get("kind")), str(object_.get("apiVersion") or "").rpartition("/")[0]
    status = object_.get("status") or {}
    if kind == "Job" and group == "batch.volcano.sh":
        return _volcano(status)
    if kind == "RayJob":
        return _ray(status)
    words = _BY_CONDITION.get(kind)
    if words is None:
        return Outcome("live", kind.lower())
    conditions = {one.get("type"): one for one in status.get("conditions") or () if one.get("status") == "True"}
    restarts = int(status.get("restarts") or 0)
    fates: tuple[tuple[str, Fate], ...] = (
        (words.done, "done"), (words.failed, "failed"), (words.suspended, "suspended"),
    )  # fmt: skip
    for type_, fate in fates:
        if type_ in conditions:
            return _told(fate, words.system, conditions[type_], restarts)
    if (object_.get("spec") or {}).get("suspend"):
        return Outcome("suspended", words.system, restarts=restarts)
    latest = conditions.get("Restarting") or {}
    return Outcome("live", words.system, str(latest.get("reason") or ""), str(latest.get("message") or ""), restarts)


def forwards(object_: Object) -> list[str]:
    """Commands that reach the Ray of a RayJob or RayCluster, whose Service is not public; none while it has none."""
    if object_.get("kind") not in ("RayJob", "RayCluster"):
        return []
    status = object_.get("status") or {}
    status = status.get("rayClusterStatus") or status
    service = (status.get("head") or {}).get("serviceName")
    if not service:
        return []
    space = (object_.get("metadata") or {}).get("namespace") or "default"
    forward = f"kubectl -n {space} port-forward service/{service}"
    return [
        f"dashboard and Jobs API: {forward} 8265:8265, then http://127.0.0.1:8265",
        f"Ray client: {forward} 10001:10001",
    ]


def _told(fate: Fate, system: str, condition: Mapping[str, Any], restarts: int) -> Outcome:
    return Outcome(
        fate,
        system,
        str(condition.get("reason") or ""),
        str(condition.get("message") or ""),
        restarts,
        seconds(condition.get("lastTransitionTime")),
    )


def _volcano(status: Mapping[str, Any]) -> Outcome:
    state = status.get("state") or {}
    fate = _VOLCANO.get(str(state.get("phase")), "live")
    at = seconds(state.get("lastTransitionTime"))
    restarts = int(status.get("retryCount") or 0)
    return Outcome(fate, "volcano", str(state.get("reason") or ""), str(state.get("message") or ""), restarts, at)


def _ray(status: Mapping[str, Any]) -> Outcome:
    deployed, job = str(status.get("jobDeploymentStatus") or ""), str(status.get("jobStatus") or "")
    fate = _RAY.get(deployed, "live")
    if fate == "done" and job in ("FAILED", "STOPPED"):
        fate = "failed"
    return Outcome(
        fate, "rayjob", str(status.get("reason") or ""), str(status.get("message") or ""),
        int(status.get("failed") or 0), seconds(status.get("endTime")),
    )  # fmt: skip
