"""One pod as the state machine sees it: which node of which stage, how it stands, how each container ended.

Takes the pod object; gives ``PodView``, which can be kept as JSON after the pod is gone. It must not know why a pod
waits or failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from trainwright import plain_json
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.labels import INDEX_LABELS, ROLE_LABELS, STAGE

_RESTART_LABELS = ("jobset.sigs.k8s.io/restart-attempt",)


@dataclass(frozen=True)
class Ended:
    """How a container ended. ``told`` is what the project's own launcher wrote about it, ``text`` anything else."""

    container: str
    code: int
    reason: str = ""
    at: float | None = None
    text: str = ""
    told: Mapping[str, Any] | None = None
    init: bool = False


@dataclass(frozen=True)
class Waits:
    """A container that has not started: the kubelet's reason and message."""

    container: str
    reason: str
    message: str = ""
    init: bool = False


@dataclass(frozen=True)
class PodView:
    """``index`` is the number of the node in its role, None where nothing tells it. Times are seconds.

    ``submission`` is the first attempt of the submit that it belongs to: earlier ones explain nothing any more.
    """

    name: str
    uid: str
    stage: str
    phase: str
    index: int | None = None
    role: str = ""
    node: str | None = None
    attempt: int | None = None
    created: float | None = None
    started: float | None = None
    ended_at: float | None = None
    deleting: bool = False
    ready: bool = False
    running: bool = False
    reason: str = ""
    message: str = ""
    unscheduled: str = ""
    gated: bool = False
    disrupted: tuple[str, str] | None = None
    restarts: int = 0
    claims: tuple[str, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Mapping[str, Any], ...] = ()
    ended: tuple[Ended, ...] = ()
    waits: tuple[Waits, ...] = ()
    containers: tuple[str, ...] = ()
    gone: bool = False
    submission: int = 1

    @property
    def failed(self) -> bool:
        """True when it ended badly, or a container of it did."""
        return self.phase == "Failed" or any(one.code != 0 for one in self.ended)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PodView:
        """Read what ``to_dict`` wrote; TypeError, KeyError or ValueError for anything else."""
        disrupted = values.get("disrupted")
        return cls(
            **{
                **values,
                "disrupted": (str(disrupted[0]), str(disrupted[1])) if disrupted else None,
                "claims": tuple(values.get("claims") or ()),
                "devices": tuple((str(name), int(count)) for name, count in values.get("devices") or ()),
                "selector": tuple((str(name), str(value)) for name, value in values.get("selector") or ()),
                "tolerations": tuple(values.get("tolerations") or ()),
                "ended": tuple(Ended(**one) for one in values.get("ended") or ()),
                "waits": tuple(Waits(**one) for one in values.get("waits") or ()),
                "containers": tuple(values.get("containers") or ()),
            }
        )

    def as_gone(self, now: float) -> PodView:
        """The same pod once it is no more: what was running then has ended, nobody knows how."""
        return replace(self, gone=True, running=False, ready=False, ended_at=self.ended_at or now)


def pod_view(pod: Object) -> PodView:
    """What counts of a pod."""
    about, spec, status = pod.get("metadata") or {}, pod.get("spec") or {}, pod.get("status") or {}
    labels, notes = about.get("labels") or {}, about.get("annotations") or {}
    ended, waits, running, restarts = _containers(status)
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    disrupted = conditions.get("DisruptionTarget") or {}
    ends = [one.at for one in ended if one.at is not None]
    phase = str(status.get("phase") or "Pending")
    return PodView(
        name=str(about.get("name")),
        uid=str(about.get("uid") or about.get("name")),
        stage=str(labels.get(STAGE) or ""),
        phase=phase,
        index=_index(labels, notes),
        role=next((str(labels[name]) for name in ROLE_LABELS if name in labels), ""),
        node=spec.get("nodeName") or None,
        attempt=_attempt(labels, notes, ended),
        created=seconds(about.get("creationTimestamp")),
        started=seconds(status.get("startTime")),
        ended_at=max(ends) if ends and not running else None,
        deleting=bool(about.get("deletionTimestamp")),
        ready=(conditions.get("Ready") or {}).get("status") == "True",
        running=running,
        reason=str(status.get("reason") or ""),
        message=str(status.get("message") or ""),
        unscheduled=str(scheduled.get("message") or "") if scheduled.get("status") == "False" else "",
        gated=scheduled.get("reason") == "SchedulingGated",
        disrupted=(str(disrupted.get("reason") or ""), str(disrupted.get("message") or ""))
        if disrupted.get("status") == "True"
        else None,
        restarts=restarts,
        claims=_claims(spec),
        devices=_devices(spec),
        selector=tuple((spec.get("nodeSelector") or {}).items()),
        tolerations=tuple(spec.get("tolerations") or ()),
        ended=ended,
        waits=waits,
        containers=tuple(str(one.get("name")) for one in spec.get("containers") or ()),
    )


def seconds(text: object) -> float | None:
    """A time as the API writes it, in seconds since the epoch."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _containers(status: Mapping[str, Any]) -> tuple[tuple[Ended, ...], tuple[Waits, ...], bool, int]:
    ended: list[Ended] = []
    waits: list[Waits] = []
    running, restarts = False, 0
    for part in ("initContainerStatuses", "containerStatuses"):
        init = part.startswith("init")
        for one in status.get(part) or ():
            name, state = str(one.get("name")), one.get("state") or {}
            if not init:
                restarts = max(restarts, int(one.get("restartCount") or 0))
                running = running or "running" in state
            if "waiting" in state:
                about = state["waiting"] or {}
                waits.append(Waits(name, str(about.get("reason") or ""), str(about.get("message") or ""), init))
                state = one.get("lastState") or {}  # how it ended before it came to wait again
            if "terminated" in state:
                ended.append(_ended(name, state["terminated"] or {}, init))
    return tuple(ended), tuple(waits), running, restarts


def _ended(container: str, about: Mapping[str, Any], init: bool) -> Ended:
    text = str(about.get("message") or "")
    told: Mapping[str, Any] | None = None
    last = text.strip().rpartition("\n")[2]
    if last.startswith("{"):
        try:
            value = plain_json.loads(last)
        except ValueError:
            value = None
        if isinstance(value, dict) and value.get("v") == 1 and "code" in value:
            told, text = value, ""
    code = int(about.get("exitCode") or 0)
    signal = int(about.get("signal") or 0)
    return Ended(
        container, 128 + signal if signal and not code else code, str(about.get("reason") or ""),
        seconds(about.get("finishedAt")), text, told, init,
    )  # fmt: skip


def _index(labels: Mapping[str, Any], notes: Mapping[str, Any]) -> int | None:
    for name in INDEX_LABELS:
        for place in (labels, notes):
            value = str(place.get(name, ""))
            if value.isascii() and value.isdigit():
                return int(value)
    return None


def _attempt(labels: Mapping[str, Any], notes: Mapping[str, Any], ended: tuple[Ended, ...]) -> int | None:
    for one in ended:
        value = (one.told or {}).get("attempt")
        if type(value) is int:
            return value
    for name in _RESTART_LABELS:
        text = str(labels.get(name) or notes.get(name) or "")
        if text.isascii() and text.isdigit():
            return int(text) + 1
    return None


def _claims(spec: Mapping[str, Any]) -> tuple[str, ...]:
    volumes = spec.get("volumes") or ()
    return tuple(
        str(one["persistentVolumeClaim"].get("claimName")) for one in volumes if one.get("persistentVolumeClaim")
    )


def _devices(spec: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """Extended resources that the pod asks for, summed over its containers."""
    found: dict[str, int] = {}
    for container in spec.get("containers") or ():
        wanted = (container.get("resources") or {}).get("limits") or {}
        for name, count in wanted.items():
            if "/" in name and str(count).isdigit():
                found[name] = found.get(name, 0) + int(count)
    return tuple(found.items())
