"""From what the cluster has of a run and what its folder keeps to its state: reads, then lets ``state_of`` judge.

Takes a cluster, a run's folder and record and what a watch has seen. It judges nothing itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from trainwright.runs.events import read_events
from trainwright.runs.failures import first_failure
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobState
from trainwright.runs.steps import saved_step
from trainwright.targets.kubernetes import mirror
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.enrich import claims_of, holders_of, nodes_of, queue_of
from trainwright.targets.kubernetes.outcome import outcome
from trainwright.targets.kubernetes.pod_view import PodView, pod_view
from trainwright.targets.kubernetes.record import JobRecord
from trainwright.targets.kubernetes.snapshot import Snapshot, Stage
from trainwright.targets.kubernetes.state import is_done, state_of, wants
from trainwright.targets.kubernetes.watch import Seen, Watch


@dataclass(frozen=True)
class Looked:
    """What was seen, and what it means."""

    snapshot: Snapshot
    state: JobState

    def done(self, stage: Stage) -> bool:
        """Whether a stage is complete."""
        return is_done(stage)


@dataclass(frozen=True)
class History:
    """Pods of a run, with those that are gone."""

    run: RunFolder
    record: JobRecord

    def pods(self, current: Sequence[Object]) -> tuple[PodView, ...]:
        """All of them, oldest first; remembered in the folder."""
        views = [replace(pod_view(pod), submission=self.record.first_attempt) for pod in current]
        return mirror.remember(self.run, views, time.time())

    def attempt(self, pods: Sequence[PodView]) -> int:
        """The attempt that these pods have come to."""
        return attempt_of(self.record.first_attempt, of_submission(self.record, pods), 0)


def of_submission(record: JobRecord, pods: Sequence[PodView]) -> tuple[PodView, ...]:
    """Pods that were made since the last submit."""
    return tuple(pod for pod in pods if pod.submission == record.first_attempt)


def attempt_of(first: int, pods: Sequence[PodView], restarts: int) -> int:
    """The highest attempt known of: by what launchers wrote, by the object, by pods that took another's place."""
    told = [pod.attempt for pod in pods if pod.attempt is not None]
    places: dict[tuple[str, str, int], list[PodView]] = {}
    for pod in pods:
        if pod.index is not None:
            places.setdefault((pod.stage, pod.role, pod.index), []).append(pod)
    replaced = [sum(pod.failed or pod.gone for pod in same[:-1]) for same in places.values()]
    return max([first + max([0, restarts, *replaced, *(pod.restarts for pod in pods)]), *told])


def look(watch: Watch, run: RunFolder, record: JobRecord, seen: Seen, pods: Sequence[PodView]) -> Looked:
    """The snapshot and the state; a second look is taken where something else would let it be told better."""
    cluster = watch.cluster
    snapshot = _snapshot(run, record, seen, pods)
    state = state_of(snapshot)
    wanted = wants(snapshot, state)
    if "claims" in wanted:
        names = sorted({name for pod in pods for name in pod.claims})
        claims = watch.kept(f"claims {names}", lambda: claims_of(cluster, names))
        snapshot = replace(snapshot, claims=claims)
    if "nodes" in wanted:
        resources = {name for pod in pods for name, _ in pod.devices}
        holders: dict[str, int] = {}
        for resource in resources:
            if state.reason is not None and resource in state.reason.sentence:
                holders = holders_of(seen.others, resource)
        snapshot = replace(snapshot, nodes=watch.kept("nodes", lambda: nodes_of(cluster)), holders=holders)
    if "queue" in wanted and seen.workloads:
        snapshot = replace(snapshot, queue=queue_of(cluster, seen.workloads[0]))
    if state.phase == "FAILED":
        at = max(snapshot.attempt, 1)
        events = read_events(run.events)
        snapshot = replace(snapshot, failure=first_failure(run, at, state.stage or "train", events))
    return Looked(snapshot, state_of(snapshot) if wanted or state.phase == "FAILED" else state)


def _snapshot(run: RunFolder, record: JobRecord, seen: Seen, pods: Sequence[PodView]) -> Snapshot:
    stages = tuple(
        Stage(
            one.name,
            one.kind,
            one.object_name,
            seen.objects.get((one.kind, one.object_name)),
            applied=one.name in record.applied,
            holds_all=one.holds_all,
            done=one.name in record.completed,
            parts=one.parts,
        )
        for one in record.stages
    )
    restarts = max((outcome(one.object_).restarts for one in stages if one.object_ is not None), default=0)
    now = time.time()
    own = of_submission(record, pods)
    return Snapshot(
        run_id=run.run_id,
        name=record.name,
        namespace=record.namespace,
        stages=stages,
        pods=own,
        events=seen.events,
        workloads=seen.workloads,
        pod_groups=seen.pod_groups,
        node_claims=seen.node_claims,
        now=now,
        first_attempt=record.first_attempt,
        attempt=attempt_of(record.first_attempt, own, restarts),
        cancelled=run.cancel_request.exists(),
        saved=_saved(run, pods),
        price=record.price,
        spent_hours=_hours(pods, now),
    )


def _saved(run: RunFolder, pods: Sequence[PodView]) -> int | None:
    """The newest checkpoint: by the folder where it is the pods' own, and by what launchers told at their end."""
    told = [
        value for pod in pods for one in pod.ended if type(value := (one.told or {}).get("saved")) is int
    ]  # fmt: skip
    here = saved_step(run)
    return max([*told, *([here] if here is not None else [])], default=None)


def _hours(pods: Sequence[PodView], now: float) -> float:
    """Node hours of training so far."""
    return sum(
        max(0.0, (pod.ended_at or now) - pod.started) / 3600
        for pod in pods
        if pod.started is not None and pod.stage in ("", "train")
    )
