"""What pods print and events tell, kept in the client's folder: pods and events are deleted long before anybody asks.

Takes a cluster, a run's folder and its pods; appends to logs, events and ``pods.json``. Where the folder lies on the
storage of the pods, what they write there themselves is left alone. It must not judge anything.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.runs import jsonl
from trainwright.runs.events import SUPERVISOR
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.targets.kubernetes.cluster import Cluster
from trainwright.targets.kubernetes.pod_view import PodView
from trainwright.targets.kubernetes.snapshot import Event

STATE = "mirror.json"  # how far each container's log was read, which files are ours, which events were told
PODS = "pods.json"  # pods of this run as they were last seen
CLUSTER_EVENTS = "cluster.jsonl"
_RANK = re.compile(rb"\[rank (\d+)\] ?")


def pull_logs(
    cluster: Cluster, run: RunFolder, pods: Sequence[PodView], attempt: int, *, only_ended: bool, first: bool = False
) -> None:
    """Append what containers have printed since the last pull. ``attempt`` is for pods that do not say theirs.

    ``first``: of pods that run, too, but only the first node's, whose rank 0 tells how far training is.
    """
    state = _state(run)
    read: dict[str, Any] = state.setdefault("read", {})
    changed = False
    for pod in pods:
        over = pod.phase in ("Succeeded", "Failed") and not pod.running
        known = read.setdefault(pod.uid, {})
        if pod.node is None or pod.gone or known.get("over"):
            continue
        leads = first and pod.index in (None, 0) and pod.stage == "train"
        if only_ended and not over and not leads:
            continue
        for container in pod.containers:
            since = known.get(container)
            got = _lines(cluster.logs(pod.name, container, since=since), since)
            if got:
                _write(run, pod, container, pod.attempt or attempt, [text for _, text in got], state)
                known[container] = got[-1][0]
                changed = True
        if over:
            known["over"] = changed = True
    if changed:
        _save(run, state)


def tell_events(run: RunFolder, events: Iterable[Event], attempt: int) -> None:
    """Append events of the cluster that were not told yet."""
    state = _state(run)
    told: dict[str, int] = state.setdefault("events", {})
    fresh = [one for one in events if one.uid not in told]  # what repeats itself is told once
    if not fresh:
        return
    for one in fresh:
        note(run, attempt, f"{one.kind}/{one.name}", one.reason, one.message, at=one.at)
        told[one.uid] = one.count
    _save(run, state)


def note(run: RunFolder, attempt: int, object_: str, reason: str, message: str = "", at: float | None = None) -> None:
    """Append one event of the cluster, or of what this client has done or seen; now, unless told otherwise."""
    run.events.mkdir(parents=True, exist_ok=True)
    record = {
        "v": 1, "t": time.time() if at is None else at, "run_id": run.run_id, "attempt": attempt, "rank": SUPERVISOR,
        "kind": "cluster", "object": object_, "reason": reason, "message": " ".join(message.split()),
    }  # fmt: skip
    jsonl.append(run.events / CLUSTER_EVENTS, record)


def remember(run: RunFolder, pods: Sequence[PodView], now: float) -> tuple[PodView, ...]:
    """Pods as they are, and those that were and are no more, oldest first; the file is kept current."""
    before = read_pods(run)
    current = {pod.uid: pod for pod in pods}
    merged = {
        **{uid: pod if pod.gone else pod.as_gone(now) for uid, pod in before.items() if uid not in current},
        **current,
    }
    if merged != before:
        values = {uid: pod.to_dict() for uid, pod in merged.items()}
        write_atomically(run.root / PODS, json.dumps({"v": 1, "pods": values}) + "\n")
    return tuple(sorted(merged.values(), key=lambda pod: (pod.created or 0.0, pod.name)))


def read_pods(run: RunFolder) -> dict[str, PodView]:
    """Pods by uid as they were last seen; empty when nothing was kept."""
    found: dict[str, PodView] = {}
    for uid, values in ((read_json(run.root / PODS) or {}).get("pods") or {}).items():
        try:
            found[str(uid)] = PodView.from_dict(values)
        except (TypeError, KeyError, ValueError):
            continue
    return found


def _lines(data: bytes, since: str | None) -> list[tuple[str, bytes]]:
    """``(time, text)`` of every line after ``since``: the server counts in whole seconds and repeats some."""
    found = []
    for line in data.split(b"\n"):
        time, _, text = line.partition(b" ")
        stamp = time.decode("ascii", errors="replace")
        if stamp and (since is None or _comparable(stamp) > _comparable(since)):
            found.append((stamp, text))
    return found


def _comparable(stamp: str) -> str:
    """RFC 3339 in UTC so that text order is time order: the writer leaves out zeros at the end of the fraction."""
    head, _, fraction = stamp.rstrip("Z").partition(".")
    return f"{head}.{fraction.ljust(9, '0')}"


def _write(
    run: RunFolder, pod: PodView, container: str, attempt: int, lines: Sequence[bytes], state: dict[str, Any]
) -> None:
    """Lines of a rank to the rank's log, the others to the stage's."""
    parts: dict[Path, list[bytes]] = {}
    stage = pod.stage or "train"
    several = pod.index is not None and stage == "train"
    name = f"{stage}-{pod.index}" if several else stage
    if len(pod.containers) > 1 and container != pod.containers[0]:
        name = f"{name}-{container}"
    for line in lines:
        rank = _RANK.match(line)
        path = run.rank_log(attempt, int(rank[1])) if rank else run.stage_log(attempt, name)
        parts.setdefault(path, []).append(line[rank.end() :] if rank else line)
    ours: list[str] = state.setdefault("ours", [])
    for path, texts in parts.items():
        short = str(path.relative_to(run.root))
        if short not in ours:
            if path.exists():
                continue  # the pod writes it itself: the folder lies on its storage
            ours.append(short)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as handle:
            handle.write(b"".join(text + b"\n" for text in texts))


def _state(run: RunFolder) -> dict[str, Any]:
    return read_json(run.root / STATE) or {"v": 1}


def _save(run: RunFolder, state: Mapping[str, Any]) -> None:
    write_atomically(run.root / STATE, json.dumps(state) + "\n")
