"""A cluster in memory for the tests of the watching side: objects go in, objects come out, nothing happens by itself.

Only what a test says happens: a test sets statuses, adds pods and events, and names what the server refuses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from trainwright.errors import TrainwrightError
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.labels import RUN, STAGE
from trainwright.targets.kubernetes.refusal import missing_kind
from trainwright.targets.kubernetes.resources import EVENT, POD, Resource, known

NOW = "2026-12-01T10:00:00Z"
_SERVED = {
    "JobSet": ("jobset.x-k8s.io", "v1alpha2", "jobsets"),
    "Workload": ("kueue.x-k8s.io", "v1beta2", "workloads"),
    "LocalQueue": ("kueue.x-k8s.io", "v1beta2", "localqueues"),
    "ClusterQueue": ("kueue.x-k8s.io", "v1beta2", "clusterqueues"),
}


class FakeCluster:
    """A ``Cluster`` over a dictionary. ``refuse`` maps ``Kind/name`` or ``verb kind`` to what is raised for it."""

    def __init__(self) -> None:
        self.context, self.namespace = "test", "ml"
        self.objects: dict[tuple[str, str], Object] = {}
        self.printed: dict[str, bytes] = {}
        self.refuse: dict[str, TrainwrightError] = {}
        self.asked: list[str] = []
        self.deleted: list[tuple[str, str, int | None]] = []
        self._count = 0

    def put(self, object_: Object) -> Object:
        """Store an object as it is."""
        self._count += 1
        about = object_.setdefault("metadata", {})
        about.setdefault("creationTimestamp", NOW)
        about.setdefault("uid", f"uid-{object_['kind']}-{about['name']}")
        about["resourceVersion"] = str(self._count)
        self.objects[object_["kind"], about["name"]] = object_
        return object_

    def resource(self, api_version: str, kind: str) -> Resource:
        found = known(api_version, kind)
        if found is None and kind in _SERVED and api_version == "/".join(_SERVED[kind][:2]):
            group, version, plural = _SERVED[kind]
            found = Resource(group, version, kind, plural)
        if found is None:
            raise missing_kind(api_version, kind, self.context)
        return found

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        self._asking(f"get {resource.kind}")
        return self.objects.get((resource.kind, name))

    def list(
        self,
        resource: Resource,
        *,
        labels: Mapping[str, str] | str = "",
        fields: str = "",
        namespace: str | None = None,
        everywhere: bool = False,
    ) -> list[Object]:
        self._asking(f"list {resource.kind}" + (f" of {namespace}" if namespace else ""))
        found = [one for (kind, _), one in self.objects.items() if kind == resource.kind and _fits(one, labels)]
        if resource is EVENT:  # events about nodes are kept in the namespace `default`
            about_nodes = {"Node", "NodeClaim"} if namespace == "default" else None
            return [
                one
                for one in found
                if (one["involvedObject"]["kind"] in ("Node", "NodeClaim")) == (about_nodes is not None)
                and (not fields or fields == f"involvedObject.kind={one['involvedObject']['kind']}")
            ]
        return found

    def apply(self, object_: Object, *, dry_run: bool = False) -> Object:
        name = f"{object_['kind']}/{object_['metadata']['name']}"
        self._asking(f"{'check' if dry_run else 'apply'} {name}")
        self.resource(object_["apiVersion"], object_["kind"])
        refused = self.refuse.get(name) or (None if dry_run else self.refuse.get(f"apply {name}"))
        if refused is not None:
            raise refused
        before = self.objects.get((object_["kind"], object_["metadata"]["name"]))
        if dry_run:
            return copy.deepcopy(before) if before else {"metadata": {}}
        if before is not None:
            return before
        return self.put(copy.deepcopy(object_))

    def create(self, object_: Object) -> Object:
        self._asking(f"create {object_['kind']}")
        return object_

    def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> bool:
        self._asking(f"delete {resource.kind}/{name}")
        self.deleted.append((resource.kind, name, grace_seconds))
        gone = self.objects.pop((resource.kind, name), None)
        if gone is not None and resource is not POD:
            for pod in self.list(POD):
                if pod["metadata"]["labels"].get(RUN) == (gone["metadata"].get("labels") or {}).get(RUN):
                    self.objects.pop(("Pod", pod["metadata"]["name"]))
        return gone is not None

    def watch(
        self, resource: Resource, *, labels: Mapping[str, str] | str = "", seconds: int = 30
    ) -> Iterator[tuple[str, Object]]:
        return iter(())

    def logs(self, pod: str, container: str | None = None, *, since: str | None = None) -> bytes:
        return self.printed.get(pod, b"")

    def _asking(self, what: str) -> None:
        self.asked.append(what)
        if what in self.refuse:
            raise self.refuse[what]

    def pod(self, run: str, name: str, **fields: Any) -> Object:
        """Store a pod; see ``pod``."""
        return self.put(pod(run, name, **fields))

    def event(self, kind: str, name: str, reason: str, message: str, source: str = "") -> Object:
        """Store an event about an object."""
        self._count += 1
        return self.put(event(kind, name, reason, message, source, f"e{self._count}"))


def pod(
    run: str, name: str, *, stage: str = "train", index: int | None = 0, phase: str = "Running",
    node: str | None = "n1", status: Object | None = None, spec: Object | None = None,
) -> Object:  # fmt: skip
    """A pod of a run; without a status one that runs, waits or has ended well."""
    labels = {RUN: run, STAGE: stage}
    if index is not None:
        labels["batch.kubernetes.io/job-completion-index"] = str(index)
    about: Object = {"name": name, "labels": labels, "uid": f"uid-{name}", "creationTimestamp": NOW}
    shown: Object = {"phase": phase, **({"startTime": NOW} if node else {})}
    if phase == "Running":
        shown["containerStatuses"] = [{"name": "train", "state": {"running": {"startedAt": NOW}}, "restartCount": 0}]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": about,
        "spec": {"containers": [{"name": "train"}], **({"nodeName": node} if node else {}), **(spec or {})},
        "status": {**shown, **(status or {})},
    }  # fmt: skip


def ended(code: int, reason: str = "Error", message: str = "", at: str = NOW) -> Object:
    """Status of a pod whose container has ended."""
    state = {"terminated": {"exitCode": code, "reason": reason, "message": message, "finishedAt": at}}
    statuses = [{"name": "train", "state": state, "restartCount": 0}]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}


def event(kind: str, name: str, reason: str, message: str, source: str = "", uid: str = "e") -> Object:
    """An event as the API has it."""
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": uid, "uid": uid},
        "involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message,
        "source": {"component": source}, "lastTimestamp": NOW, "count": 1,
    }  # fmt: skip


def conditions(*types: str, reason: str = "", message: str = "") -> list[Object]:
    """Conditions that are True."""
    return [
        {"type": one, "status": "True", "reason": reason, "message": message, "lastTransitionTime": NOW}
        for one in types
    ]


def _fits(one: Object, labels: Mapping[str, str] | str) -> bool:
    own = (one.get("metadata") or {}).get("labels") or {}
    if not labels:
        return True
    text = labels if isinstance(labels, str) else ",".join(f"{k}={v}" for k, v in labels.items())
    name, found, values = text.partition(" in (")
    if found:
        return own.get(name) in values.rstrip(")").split(",")
    name, found, value = text.partition("=")
    return own.get(name) == value if found else name in own


__all__ = ["EVENT", "NOW", "FakeCluster", "conditions", "ended", "event", "pod"]
