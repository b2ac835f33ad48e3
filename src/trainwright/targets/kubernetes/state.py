"""Where a run on Kubernetes stands: one state machine for every kind, pure over what was read at one moment.

``Snapshot`` in, ``JobState`` out. While a run waits, the sentence is the outermost gate's; once it has failed, that
of what ended first. ``wants`` says what else would have to be read to say it better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from trainwright.runs.state import JobState, Phase, Reason
from trainwright.targets.kubernetes.failing import Verdict, why_failed
from trainwright.targets.kubernetes.outcome import Outcome, outcome
from trainwright.targets.kubernetes.pod_view import PodView, seconds
from trainwright.targets.kubernetes.snapshot import Snapshot, Stage
from trainwright.targets.kubernetes.submission import ORDER
from trainwright.targets.kubernetes.waiting import CLOSED, why_waiting

Want = Literal["claims", "nodes", "queue"]
_NODES_SHOWN = 4
_JUST_STARTING = ("k8s-starting",)  # says only that it goes on; what was before says more


def state_of(seen: Snapshot) -> JobState:
    """The state in the words that every target uses."""
    stage = _current(seen)
    if stage is None:
        ends = [outcome(one.object_).at for one in seen.stages if one.object_ is not None]
        since = max((at for at in ends if at is not None), default=_last_end(seen.pods))
        return _with(seen, JobState("SUCCEEDED", attempt=seen.attempt, since=since))
    if stage.object_ is None:
        return _with(seen, _absent(seen, stage))
    out = outcome(stage.object_)
    name = _stage_name(seen, stage)
    pods = _pods(seen, stage, name)
    if (stage.object_.get("metadata") or {}).get("deletionTimestamp") or (seen.cancelled and out.fate == "failed"):
        return _with(seen, _ending(seen, name, pods))
    if out.fate == "failed":
        return _with(seen, _failed(seen, stage, name, out))
    return _with(seen, _live(seen, stage, name, pods, out))


def wants(seen: Snapshot, state: JobState) -> set[Want]:
    """What is worth reading before the reason is told: only what that reason can be told better by."""
    reason = state.reason
    if reason is None or state.final:
        return set()
    found: set[Want] = set()
    if reason.class_ == "volume" and seen.claims is None and any(pod.claims for pod in seen.pods):
        found.add("claims")
    if (reason.id.startswith("ksched-insufficient") or reason.id in CLOSED) and seen.nodes is None:
        found.add("nodes")
    if reason.id.startswith("kueue-") and reason.class_ == "quota" and seen.queue is None:
        found.add("queue")
    return found


def is_done(stage: Stage) -> bool:
    """True when a stage is complete: its object says so, or said so before it was deleted."""
    return stage.done or (stage.object_ is not None and outcome(stage.object_).fate == "done")


def next_stage(seen: Snapshot) -> Stage | None:
    """The stage that may be submitted now: never applied, and all before it are done."""
    stage = _current(seen)
    return stage if stage is not None and stage.object_ is None and not stage.applied else None


def _current(seen: Snapshot) -> Stage | None:
    return next((stage for stage in seen.stages if not is_done(stage)), None)


def _live(seen: Snapshot, stage: Stage, name: str, pods: Sequence[PodView], out: Outcome) -> JobState:
    object_ = stage.object_ or {}
    created = seconds((object_.get("metadata") or {}).get("creationTimestamp"))
    alive = _latest([pod for pod in pods if not pod.deleting and not pod.gone and pod.phase != "Failed"])
    # of a pod that ends, the container has ended a moment before the phase says so
    at_work = [pod for pod in alive if pod.running or pod.phase == "Succeeded" or _has_ended_well(pod)]
    base = JobState("PENDING", None, None, _nodes(alive), seen.attempt, created)
    if alive and len(at_work) == len(alive):
        begun = max((pod.started for pod in alive if pod.started is not None), default=created)
        phase: Phase = "STARTING" if name == "prepare" else "RUNNING"
        return replace(base, phase=phase, reason=_restarted(seen, name), since=begun)
    placed = [pod for pod in alive if pod.node is not None]
    reason = why_waiting(seen, stage, alive)
    before = _restarted(seen, name)
    if before is not None and (reason is None or reason.id in _JUST_STARTING):
        reason = before
    elif before is not None and reason is not None:  # why it waits now, but first what had happened
        reason = replace(reason, sentence=f"{before.sentence} {reason.sentence}")
    if reason is None and not alive and pods:
        reason = Reason.told("k8s-restarting", "unknown", f"{name} is being started again")
    if reason is None and out.fate == "live":
        text = f"{stage.kind} {stage.object_name} is there; its controller has made no pods yet"
        reason = Reason.told(
            "k8s-no-pods", "dependency", text, f"trainwright status --watch {seen.run_id}", "after-wait"
        )
        if alive:
            text = f"{len(alive)} pod(s) wait to be scheduled"
            reason = Reason.told("k8s-pods-new", "dependency", text, "", "after-wait")
    return replace(base, phase="STARTING" if placed or (pods and not alive) else "PENDING", reason=reason)


def _failed(seen: Snapshot, stage: Stage, name: str, out: Outcome) -> JobState:
    pods = [pod for pod in _of(seen.pods, stage, None) if pod.failed or pod.disrupted or pod.gone]
    last = _latest(pods)
    told = next((pod.stage for pod in last if pod.failed and pod.stage in ORDER), name)
    verdict: Verdict = why_failed(told, out, last, seen.events, seen.failure)
    reason = verdict.reason
    sentence = reason.sentence if seen.saved is None else f"{reason.sentence[:-1]}; saved at step {seen.saved}."
    way_out = f"{reason.next_step.rstrip('.')}, then: {_resume(seen)}" if reason.next_step else _resume(seen)
    at = out.at or max((pod.ended_at for pod in last if pod.ended_at is not None), default=None)
    told_reason = replace(reason, sentence=sentence, next_step=way_out)
    return JobState("FAILED", told_reason, verdict.rank, verdict.node, seen.attempt, at)


def _absent(seen: Snapshot, stage: Stage) -> JobState:
    """The object is not there: not submitted yet, cancelled, or taken away by somebody."""
    if seen.cancelled:
        left = [pod for pod in seen.pods if not pod.gone]
        return _ending(seen, stage.name, left)
    if not stage.applied:
        text = f"{stage.name} is submitted as soon as the stage before it is complete"
        reason = Reason.told("k8s-next-stage", "dependency", text, f"trainwright status {seen.run_id}", "after-wait")
        return JobState("PENDING", reason, attempt=seen.attempt)
    text = f"{stage.kind} {stage.object_name} is gone: somebody deleted it, or its time to live ended{_saved(seen)}"
    reason = Reason.told("k8s-gone", "unknown", text, _resume(seen), "same-node-ok")
    return JobState("FAILED", reason, attempt=seen.attempt)


def _ending(seen: Snapshot, name: str, pods: Sequence[PodView]) -> JobState:
    """The object is being deleted, or is gone, because somebody asked for it."""
    left = [pod for pod in pods if not pod.gone and pod.phase not in ("Succeeded", "Failed")]
    if left:
        text = f"{name} is stopping: {len(left)} pod(s) save and end"
        reason = Reason.told("k8s-stopping", "unknown", text, "", "after-wait")
        return JobState("RUNNING", reason, None, _nodes(left), seen.attempt)
    if not seen.cancelled:
        text = f"The objects of {name} were deleted by somebody{_saved(seen)}"
        return JobState("FAILED", Reason.told("k8s-gone", "unknown", text, _resume(seen)), attempt=seen.attempt)
    reason = Reason.told("k8s-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
    return JobState("CANCELLED", reason, None, None, seen.attempt, _last_end(seen.pods))


def _restarted(seen: Snapshot, stage: str) -> Reason | None:
    """Why this is not the first attempt, by what is left of the one before."""
    if seen.attempt <= seen.first_attempt:
        return None
    before = [pod for pod in seen.pods if pod.stage in ("", stage) and (pod.failed or pod.disrupted or pod.gone)]
    before = [pod for pod in before if pod.gone or not pod.running]
    before = _latest(before)
    next_step = f"trainwright events {seen.run_id}"
    if before:
        verdict = why_failed(stage, Outcome("failed", "kubernetes-job"), before, seen.events)
        text = f"{stage} was started again; before: {verdict.reason.sentence}"
        return replace(verdict.reason, id="k8s-restarted", sentence=text, next_step=next_step)
    text = f"{stage} ended early before and was started again{_saved(seen)}"
    return Reason.told("k8s-restarted", "unknown", text, next_step)


def _stage_name(seen: Snapshot, stage: Stage) -> str:
    """Of an object that holds every stage, the one it has come to."""
    if not stage.holds_all:
        return stage.name
    parts = stage.parts or ("train",)
    present = [name for name in parts if any(pod.stage == name for pod in seen.pods)]
    for name in present:
        if any(pod.stage == name and pod.phase != "Succeeded" and not pod.gone for pod in seen.pods):
            return name
    return next((name for name in parts if name not in present), parts[-1])


def _pods(seen: Snapshot, stage: Stage, name: str) -> list[PodView]:
    return _of(seen.pods, stage, name if stage.holds_all else None)


def _of(pods: Iterable[PodView], stage: Stage, name: str | None) -> list[PodView]:
    if stage.holds_all:
        return [pod for pod in pods if name is None or pod.stage in ("", name)]
    return [pod for pod in pods if pod.stage in ("", stage.name)]


def _with(seen: Snapshot, state: JobState) -> JobState:
    """With the stage, and what it has cost so far by the plan's price."""
    cost = None if seen.price is None else round(seen.price * seen.spent_hours, 2)
    current = _current(seen)
    name = _stage_name(seen, current) if current is not None else None
    return replace(state, stage=name, cost=cost)


def _has_ended_well(pod: PodView) -> bool:
    own = [one for one in pod.ended if not one.init]
    return bool(own) and not pod.waits and all(one.code == 0 for one in own)


def _latest(pods: Sequence[PodView]) -> list[PodView]:
    """Pods of the last attempt, and those that do not say theirs: a pod that was lost could write nothing."""
    latest = max((pod.attempt for pod in pods if pod.attempt is not None), default=None)
    return [pod for pod in pods if pod.attempt in (None, latest)]


def _nodes(pods: Iterable[PodView]) -> str | None:
    names = sorted({pod.node for pod in pods if pod.node})
    shown = ",".join(names[:_NODES_SHOWN]) + ("…" if len(names) > _NODES_SHOWN else "")
    return shown or None


def _last_end(pods: Iterable[PodView]) -> float | None:
    return max((pod.ended_at for pod in pods if pod.ended_at is not None), default=None)


def _saved(seen: Snapshot) -> str:
    return f"; saved at step {seen.saved}" if seen.saved is not None else ""


def _resume(seen: Snapshot) -> str:
    return f"trainwright resume {seen.run_id}"
