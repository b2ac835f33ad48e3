"""Where a run on Ray stands: a pure function over its job, as Ray tells it, and what the job's log has told.

Ray calls a job running from the moment its driver runs, also while training waits for machines; the driver's own
lines say which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainwright.runs.state import JobState, Phase, Reason, ReasonClass
from trainwright.targets.ray.telling import Told

_LAST = 400  # characters of a message that nothing is known of


@dataclass(frozen=True)
class Snapshot:
    """What was seen of a run at one moment. ``job`` is None when Ray does not know it; ``nodes`` are resources of
    each, None when they were not asked for; ``demand`` is what the stage that waits asks for: workers, and what each
    of them holds."""

    run_id: str
    address: str
    job: Mapping[str, Any] | None
    told: Told
    attempt: int = 1
    cancelled: bool = False
    saved: int | None = None
    nodes: Sequence[Mapping[str, float]] | None = None
    demand: tuple[int, Mapping[str, float]] | None = None


def state_of(seen: Snapshot) -> JobState:
    """The state in the words that every target uses."""
    job, told = seen.job, seen.told
    if job is None:
        text = f"Ray at {seen.address} knows this job no more: its head was started anew{_saved(seen)}"
        return JobState("FAILED", Reason.told("ray-gone", "node-lost", text, _resume(seen)), attempt=seen.attempt)
    status, since = str(job.get("status")), _seconds(job.get("end_time") or job.get("start_time"))
    if status == "SUCCEEDED":
        return JobState("SUCCEEDED", None, attempt=seen.attempt, since=since)
    if status == "STOPPED" or (status == "FAILED" and seen.cancelled and not told.failure):
        reason = Reason.told("ray-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
        return JobState("CANCELLED", reason, attempt=seen.attempt, since=since)
    if status == "FAILED":
        failure = told.failure
        rank = failure.get("rank") if failure else None
        return JobState("FAILED", _failed(seen, failure), rank, attempt=seen.attempt, since=since, stage=told.stage)
    return _live(seen, status, since)


def waits(seen: Snapshot) -> bool:
    """Whether what Ray's nodes have would explain the state better."""
    return seen.job is not None and str(seen.job.get("status")) == "RUNNING" and seen.told.waits


def _live(seen: Snapshot, status: str, since: float | None) -> JobState:
    told = seen.told
    phase: Phase = "RUNNING"
    reason: Reason | None = None
    if status == "PENDING":
        phase = "PENDING"
        said = str((seen.job or {}).get("message") or "Ray starts the driver")
        reason = Reason.told("ray-pending", "dependency", said, f"see the dashboard: {seen.address}")
    elif told.stage is None:
        phase = "STARTING"
    elif told.waits:
        reason = _short_of(seen)
        phase = "PENDING" if reason is not None else "STARTING"
    elif told.failure is not None or any(end.get("class") == "resume" for end in told.ends):
        text = f"{told.stage} ended early before and was started again{_saved(seen)}"
        if told.failure is not None:
            text = f"{told.stage} was started again; before: {_error(told.failure)}"
        reason = Reason.told("ray-restarted", "unknown", text, f"trainwright logs {seen.run_id}")
    return JobState(phase, reason, attempt=seen.attempt, since=since, stage=told.stage)


def _short_of(seen: Snapshot) -> Reason | None:
    """What Ray's nodes lack for the stage that waits; None when they have it, in use or not."""
    if seen.nodes is None or seen.demand is None:
        return None
    workers, held = seen.demand
    asked = ", ".join(f"{amount:g} {name}" for name, amount in held.items())
    fitting = [node for node in seen.nodes if all(node.get(name, 0) >= amount for name, amount in held.items())]
    if len(fitting) >= workers:
        text = f"{seen.told.stage} waits for {workers} node(s) with {asked}: Ray has them, but they are in use"
        return Reason.told("ray-busy", "capacity", text, "wait, or stop another job: see the dashboard", "after-wait")
    name, most = _scarcest(seen.nodes, held)
    text = f"{seen.told.stage} asks for {workers} node(s) with {asked}, but Ray has {len(fitting)} of that size"
    text += "" if fitting else f"; the largest of its {len(seen.nodes)} has {most:g} {name}"
    return Reason.told("ray-too-much", "capacity", text, "add nodes to Ray, or ask for less", "after-wait")


def _scarcest(nodes: Sequence[Mapping[str, float]], held: Mapping[str, float]) -> tuple[str, float]:
    """The resource of which the largest node has least, measured by what is asked for."""
    most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in held}
    name = min(held, key=lambda one: most[one] / held[one])
    return name, most[name]


def _failed(seen: Snapshot, failure: Mapping[str, Any] | None) -> Reason:
    if failure is not None:
        user = failure.get("class") == "user"
        retry: Literal["none", "same-node-ok"] = "none" if user else "same-node-ok"
        class_: ReasonClass = "user-error" if user else "unknown"
        way_out = f"mend the error, then {_resume(seen)}" if user else _resume(seen)
        return Reason.told("ray-failed", class_, f"{_error(failure)}{_saved(seen)}", way_out, retry)
    said = [line.strip() for line in str((seen.job or {}).get("message") or "").splitlines() if line.strip()]
    last = said[-1][:_LAST] if said else "Ray does not say why"
    if "No module named" in last and "trainwright" in last:
        text = "Ray's nodes have no trainwright in their Python"
        return Reason.told("ray-no-trainwright", "config", text, "install it there, or name ray.python in the site")
    text = f"The job failed: {last}{_saved(seen)}"
    return Reason.told("ray-failed", "unknown", text, f"trainwright logs {seen.run_id}", raw="\n".join(said[-5:]))


def _error(failure: Mapping[str, Any]) -> str:
    who = f"rank {failure['rank']}: " if failure.get("rank") is not None else ""
    what = failure.get("exception") or f"{failure.get('stage')} ended with exit code {failure.get('code')}"
    return f"{who}{what}" + (f" ({failure['line']})" if failure.get("line") else "")


def _saved(seen: Snapshot) -> str:
    return f"; saved at step {seen.saved}" if seen.saved is not None else ""


def _resume(seen: Snapshot) -> str:
    return f"trainwright resume {seen.run_id}"


def _seconds(value: Any) -> float | None:
    return float(value) / 1000 if isinstance(value, int | float) and value else None
