"""What a cluster knows of runs, asked seldom: a few lists for all runs that anybody watches, at growing intervals.

Takes the names of runs and their objects; gives what belongs to each. What only explains waiting and failing (events,
queues, claims for nodes) is read only while some run does not simply run. It must not know what anything means.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trainwright.errors import TrainwrightError
from trainwright.targets.kubernetes.cluster import Cluster, Object, Objects
from trainwright.targets.kubernetes.labels import RUN
from trainwright.targets.kubernetes.resources import EVENT, POD, Resource
from trainwright.targets.kubernetes.snapshot import Event, event, events_of, owned

T = TypeVar("T")
_FIRST, _LONGEST, _GROWTH = 1.0, 10.0, 1.4
_NAMED = 50  # so many runs are named in a selector; of more, all of the namespace are listed
_NODE_EVENTS_IN = "default"
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_KUEUE = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


@dataclass(frozen=True)
class Wanted:
    """A run and its stages' objects, as ``(apiVersion, kind, name)``."""

    name: str
    objects: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Seen:
    """What the cluster has of one run. ``objects``: (kind, name) → object."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    pods: tuple[Object, ...] = ()
    events: tuple[Event, ...] = ()
    workloads: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    node_claims: tuple[Object, ...] = ()
    others: tuple[Object, ...] = ()  # pods of other runs that are watched


class Watch:
    """Runs of one namespace by name, as fresh as ``interval`` seconds."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float] = time.monotonic):
        self.cluster = cluster
        self._clock = clock
        self._wanted: dict[str, Wanted] = {}
        self._seen: dict[str, Seen] = {}
        self._asked: dict[str, float] = {}
        self._done: dict[str, float] = {}
        self._nodes: dict[str, set[str]] = {}  # of each run, also of pods that are gone
        self._kept: dict[str, tuple[float, Any]] = {}  # Any: whatever a reader gave
        self._interval = _FIRST
        self.queries = 0

    def look(self, wanted: Sequence[Wanted]) -> dict[str, Seen]:
        """Each run; asks for all watched ones when one of these is stale."""
        for one in wanted:
            self._wanted[one.name] = one
        if any(self._is_stale(one.name) for one in wanted):
            self._ask()
        return {one.name: self._seen[one.name] for one in wanted}

    def forget(self, name: str) -> None:
        """Ask again at the next look: something has just been done to this run."""
        self._asked.pop(name, None)
        self._interval = _FIRST

    def drop(self, name: str) -> None:
        """Watch a run no more: it has ended."""
        self._wanted.pop(name, None)
        self._seen.pop(name, None)
        self._asked.pop(name, None)

    def kept(self, what: str, read: Callable[[], T]) -> T:
        """What ``read`` gave within the longest interval, for whichever run: nodes are the same for all."""
        known = self._kept.get(what)
        if known is None or self._clock() - known[0] >= _LONGEST:
            known = self._kept[what] = self._clock(), read()
        found: T = known[1]
        return found

    def due(self, what: str, seconds: float) -> bool:
        """True when something else was last done so many seconds ago; it counts as done now."""
        last = self._done.get(what)
        if last is not None and self._clock() - last < seconds:
            return False
        self._done[what] = self._clock()
        return True

    def _is_stale(self, name: str) -> bool:
        return name not in self._asked or self._clock() - self._asked[name] >= self._interval

    def _ask(self) -> None:
        names = sorted(self._wanted)
        selector = f"{RUN} in ({','.join(names)})" if len(names) <= _NAMED else RUN
        kinds = {(version, kind) for one in self._wanted.values() for version, kind, _ in one.objects}
        objects: dict[tuple[str, str], Object] = {}
        for version, kind in sorted(kinds):
            for one in self._list(self.cluster.resource(version, kind), selector):
                objects[kind, _name(one)] = one
        pods = self._list(POD, selector)
        restless = self._restless(objects, pods)
        events = [event(one) for one in self._optional(EVENT)] if restless else []
        if restless:
            events += self.kept("events of nodes", self._node_events)
        queued = any(_QUEUE_LABEL in _labels(one) for one in objects.values())
        workloads = self._optional_kind(_KUEUE, "Workload") if restless and queued else []
        volcano = any(version.startswith("batch.volcano.sh") for version, _ in kinds)
        groups = self._optional_kind(("scheduling.volcano.sh/v1beta1",), "PodGroup") if restless and volcano else []
        karpenter = any(one.source == "karpenter" or one.kind == "NodeClaim" for one in events)
        claims = self._optional_kind(("karpenter.sh/v1",), "NodeClaim") if karpenter else []
        before = dict(self._seen)
        for name in names:
            seen = self._of(name, objects, pods, events, workloads, groups, claims)
            self._seen[name], self._asked[name] = seen, self._clock()
        changed = any(_moved(before.get(name), self._seen[name]) for name in names)
        self._interval = _FIRST if changed else min(self._interval * _GROWTH, _LONGEST)

    def _of(
        self,
        name: str,
        objects: dict[tuple[str, str], Object],
        pods: Objects,
        events: list[Event],
        workloads: Objects,
        groups: Objects,
        claims: Objects,
    ) -> Seen:
        wanted = self._wanted[name]
        own = {
            (kind, object_name): objects[kind, object_name]
            for _, kind, object_name in wanted.objects
            if (kind, object_name) in objects
        }
        uids = {str((one.get("metadata") or {}).get("uid")) for one in own.values()}
        mine = tuple(pod for pod in pods if _labels(pod).get(RUN) == name)
        pod_names = {_name(pod) for pod in mine}
        # Kueue may own the Workload by a child of ours, a TrainJob's JobSet for example: then the name tells
        loads = owned(workloads, uids, {object_name for _, _, object_name in wanted.objects})
        pod_groups = owned(groups, uids, set())
        claimed = {
            claim
            for claim in map(_name, claims)
            if any(claim in one.message for one in events if one.name in pod_names)
        }
        nodes = self._nodes.setdefault(name, set())
        nodes.update(str(pod["spec"]["nodeName"]) for pod in mine if (pod.get("spec") or {}).get("nodeName"))
        named = {
            *pod_names, *(object_name for _, _, object_name in wanted.objects), *map(_name, loads),
            *map(_name, pod_groups), *claimed, *nodes,
            *(str(one["persistentVolumeClaim"].get("claimName")) for pod in mine
              for one in (pod.get("spec") or {}).get("volumes") or () if one.get("persistentVolumeClaim")),
        }  # fmt: skip
        others = [one for one in self._wanted if one != name]
        return Seen(
            own,
            mine,
            events_of(events, named, name, others),
            loads,
            pod_groups,
            tuple(one for one in claims if _name(one) in claimed),
            tuple(pod for pod in pods if _labels(pod).get(RUN) != name),
        )

    def _restless(self, objects: dict[tuple[str, str], Object], pods: Objects) -> bool:
        """Whether some run does anything but run: then what explains it is read, too."""
        by_run: dict[str, Objects] = {}
        for pod in pods:
            by_run.setdefault(_labels(pod).get(RUN, ""), []).append(pod)
        for name in self._wanted:
            own = by_run.get(name, [])
            phases = {str((pod.get("status") or {}).get("phase")) for pod in own}
            if not own or not phases <= {"Running", "Succeeded"} or any(_disturbed(pod) for pod in own):
                return True
        return False

    def _list(self, resource: Resource, labels: str = "") -> Objects:
        self.queries += 1
        return self.cluster.list(resource, labels=labels, everywhere=not resource.namespaced)

    def _node_events(self) -> list[Event]:
        """What is told about nodes, also of those being made: objects of no namespace have it in ``default``."""
        if self.cluster.namespace == _NODE_EVENTS_IN:
            return []
        found: Objects = []
        for kind in ("Node", "NodeClaim"):
            with contextlib.suppress(TrainwrightError):
                self.queries += 1
                fields = f"involvedObject.kind={kind}"
                found += self.cluster.list(EVENT, fields=fields, namespace=_NODE_EVENTS_IN)
        return [event(one) for one in found]

    def _optional(self, resource: Resource) -> Objects:
        """What may not be readable by everybody: the answer is then without it."""
        with contextlib.suppress(TrainwrightError):
            return self._list(resource)
        return []

    def _optional_kind(self, versions: Iterable[str], kind: str) -> Objects:
        for version in versions:
            try:
                resource = self.cluster.resource(version, kind)
            except TrainwrightError:
                continue
            return self._optional(resource)
        return []


_WATCHES: dict[tuple[int, str], Watch] = {}


def watch_for(cluster: Cluster) -> Watch:
    """The one watch of this process over a namespace: targets are made anew for every call, the queries are not."""
    return _WATCHES.setdefault((id(cluster), cluster.namespace), Watch(cluster))


def _moved(before: Seen | None, now: Seen) -> bool:
    """Whether anything happened to a run since the last look."""
    if before is None:
        return True
    return [_version(one) for one in (*before.objects.values(), *before.pods)] != [
        _version(one) for one in (*now.objects.values(), *now.pods)
    ]


def _disturbed(pod: Object) -> bool:
    status = pod.get("status") or {}
    waiting = any("waiting" in (one.get("state") or {}) for one in status.get("containerStatuses") or ())
    disrupted = any(
        one.get("type") == "DisruptionTarget" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )
    return waiting or disrupted or bool((pod.get("metadata") or {}).get("deletionTimestamp"))


def _version(one: Object) -> str:
    return str((one.get("metadata") or {}).get("resourceVersion"))


def _name(one: Object) -> str:
    return str((one.get("metadata") or {}).get("name"))


def _labels(one: Object) -> dict[str, str]:
    return (one.get("metadata") or {}).get("labels") or {}
