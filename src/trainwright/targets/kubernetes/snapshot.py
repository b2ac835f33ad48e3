"""What is known of one run at one moment: its objects, pods, events and what its folder says. Plain values.

The batched lists of a namespace go in, what belongs to one run comes out. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trainwright.runs.failures import Failure
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.pod_view import PodView, seconds


@dataclass(frozen=True)
class Event:
    """One event of the cluster about one object. ``at`` is when it was seen last."""

    kind: str
    name: str
    reason: str
    message: str
    source: str = ""
    at: float = 0.0
    count: int = 1
    uid: str = ""
    warning: bool = False

    @property
    def about(self) -> tuple[str, str]:
        """Kind and name of the object."""
        return self.kind, self.name


@dataclass(frozen=True)
class Stage:
    """One stage's object. ``object_`` is None when it is not there; ``applied`` and ``done`` tell what it ever was.

    ``holds_all`` is an object whose pods are those of every stage, ``parts`` in order.
    """

    name: str
    kind: str
    object_name: str
    object_: Object | None = None
    applied: bool = False
    holds_all: bool = False
    done: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Queue:
    """A Kueue queue as far as it can be seen: per resource what there is and what is reserved, and by whom."""

    name: str
    nominal: Mapping[str, int]
    used: Mapping[str, int]
    holders: tuple[tuple[str, Mapping[str, int]], ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """Everything that ``state_of`` judges by. ``failure`` is the first error in the run's own logs and events."""

    run_id: str
    name: str
    namespace: str
    stages: tuple[Stage, ...]
    pods: tuple[PodView, ...] = ()
    events: tuple[Event, ...] = ()
    workloads: tuple[Object, ...] = ()
    pod_groups: tuple[Object, ...] = ()
    node_claims: tuple[Object, ...] = ()
    claims: Mapping[str, Object | None] | None = None
    nodes: tuple[Object, ...] | None = None
    queue: Queue | None = None
    holders: Mapping[str, int] = field(default_factory=dict)
    now: float = 0.0
    first_attempt: int = 1
    attempt: int = 0
    cancelled: bool = False
    saved: int | None = None
    failure: Failure | None = None
    price: float | None = None
    spent_hours: float = 0.0


def event(object_: Object) -> Event:
    """An event of either API."""
    about = object_.get("involvedObject") or object_.get("regarding") or {}
    source = (object_.get("source") or {}).get("component") or object_.get("reportingComponent")
    series = object_.get("series") or {}
    times = (
        series.get("lastObservedTime"), object_.get("lastTimestamp"), object_.get("eventTime"),
        object_.get("firstTimestamp"), (object_.get("metadata") or {}).get("creationTimestamp"),
    )  # fmt: skip
    at = next((found for text in times if (found := seconds(text)) is not None), 0.0)
    return Event(
        str(about.get("kind")), str(about.get("name")), str(object_.get("reason") or ""),
        str(object_.get("message") or object_.get("note") or ""), str(source or ""), at,
        int(object_.get("count") or series.get("count") or 1), str((object_.get("metadata") or {}).get("uid") or ""),
        object_.get("type") == "Warning",
    )  # fmt: skip


def events_of(
    events: Iterable[Event], names: Iterable[str], prefix: str, others: Iterable[str] = ()
) -> tuple[Event, ...]:
    """Events about objects with these names, or whose name begins with the run's; in order of time.

    ``others`` are the names of other runs: ``x-2`` begins as ``x`` does, and is none of it.
    """
    known = set(names)
    longer = [name for name in others if name.startswith(f"{prefix}-")]
    found = [
        one
        for one in events
        if one.name in known
        or one.name == prefix
        or (
            one.name.startswith(f"{prefix}-")
            and not any(one.name == name or one.name.startswith(f"{name}-") for name in longer)
        )
    ]
    return tuple(sorted(found, key=lambda one: one.at))


def owned(objects: Iterable[Object], uids: set[str], names: set[str]) -> tuple[Object, ...]:
    """Objects that belong to one of those owners."""
    found = []
    for one in objects:
        owners = (one.get("metadata") or {}).get("ownerReferences") or ()
        if any(owner.get("uid") in uids or owner.get("name") in names for owner in owners):
            found.append(one)
    return tuple(found)
