"""What the objects of a bundle need of a cluster: kinds, pods with their sizes, claims, secrets, a queue. Pure.

Read from the objects themselves, so that it holds for every kind and for whatever ``target.overrides`` changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright.facts import kinds
from trainwright.spec.site import KubernetesSite
from trainwright.targets.kubernetes.amounts import quantity, untolerated
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.submission import Placed

_QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class PodNeed:
    """``count`` equal pods at a time. ``requests`` in base units: cores, bytes, devices."""

    stage: str
    count: int
    requests: Mapping[str, float]
    selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    claims: tuple[str, ...]
    secrets: tuple[str, ...]
    pull_secrets: tuple[str, ...]
    service_account: str
    priority_class: str

    @property
    def devices(self) -> dict[str, int]:
        """Extended resources of one pod."""
        return {name: int(amount) for name, amount in self.requests.items() if "/" in name and amount}


@dataclass(frozen=True)
class Needs:
    """All of a bundle. ``made``: (kind, name) of what it brings itself."""

    kinds: tuple[tuple[str, str], ...]
    pods: tuple[PodNeed, ...]
    queue: str | None
    made: frozenset[tuple[str, str]]


def needs_of(objects: Iterable[Placed], kinds_: Iterable[tuple[str, str]], site: KubernetesSite) -> Needs:
    """What a bundle's objects need; without any, what a run of these kinds on this site needs in any case."""
    found = list(objects)
    queues = [str(labels[_QUEUE]) for one in found if _QUEUE in (labels := _labels(one.object_))]
    pods = tuple(need for one in found for need in _pods(one))
    own = PodNeed(
        "pods", 1, {}, site.node_labels, site.tolerations, tuple(claim.name for claim in site.claims), (),
        site.image_pull_secrets, site.service_account or "default", "",
    )  # fmt: skip
    every = [*kinds_, *((str(one.object_["apiVersion"]), one.kind) for one in found)]
    return Needs(
        tuple(dict.fromkeys(every)),
        pods or (own,),
        queues[0] if queues else None if found else site.queue,
        frozenset((one.kind, one.name) for one in found),
    )


def users_of(objects: Iterable[Placed]) -> set[int]:
    """User ids that the pods' security contexts name."""
    found: set[int] = set()
    for one in objects:
        for _, template in _templates(one):
            user = (template["spec"].get("securityContext") or {}).get("runAsUser")
            found |= {user} if type(user) is int else set()
    return found


def _pods(one: Placed) -> Iterator[PodNeed]:
    for count, template in _templates(one):
        yield _need(one.stage, count, template)


def _templates(one: Placed) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Pod templates of an object, each with how many pods of it run at a time."""
    group = str(one.object_["apiVersion"]).rpartition("/")[0]
    kind = kinds.get(one.kind, group)
    for path in kind.pods if kind is not None else ():
        entries = _at(one.object_, path.each) if path.each else one.object_
        listed = entries.values() if isinstance(entries, Mapping) and path.each else entries
        for entry in (listed or ()) if path.each else [one.object_]:
            template = _at(entry, path.template)
            if not isinstance(template, Mapping) or not template.get("spec"):
                continue
            count = 1
            for place in path.count:
                value = _at(entry, place)
                count *= value if isinstance(value, int) else 1
            yield count, template


def _need(stage: str, count: int, template: Mapping[str, Any]) -> PodNeed:
    spec = template["spec"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    requests: dict[str, float] = {}
    secrets: list[str] = []
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        for name, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            requests[name] = requests.get(name, 0.0) + quantity(amount)
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            secrets += [str(reference["name"])] if reference else []
    claims = []
    for volume in spec.get("volumes") or ():
        claims += [str(volume["persistentVolumeClaim"]["claimName"])] if volume.get("persistentVolumeClaim") else []
        secrets += [str(volume["secret"]["secretName"])] if volume.get("secret") else []
    return PodNeed(
        str(labels.get("trainwright.dev/stage") or stage), count, requests, spec.get("nodeSelector") or {},
        tuple(spec.get("tolerations") or ()), tuple(claims), tuple(dict.fromkeys(secrets)),
        tuple(str(one["name"]) for one in spec.get("imagePullSecrets") or ()),
        str(spec.get("serviceAccountName") or "default"), str(spec.get("priorityClassName") or ""),
    )  # fmt: skip


def fits(node: Object, need: PodNeed) -> str:
    """Why a node takes no such pod, whatever else runs there; empty when it does."""
    about, status = node.get("metadata") or {}, node.get("status") or {}
    labels, allocatable = about.get("labels") or {}, status.get("allocatable") or {}
    for name, value in need.selector.items():
        if labels.get(name) != value:
            return f"label {name}={value}"
    taint = untolerated(node, need.tolerations)
    if taint is not None:
        return f"taint {taint.get('key')}"
    for name, amount in need.requests.items():
        if quantity(allocatable.get(name, "0")) < amount:
            return name
    return ""


def _labels(one: Object) -> Mapping[str, Any]:
    return (one.get("metadata") or {}).get("labels") or {}


def _at(value: Any, path: tuple[str, ...]) -> Any:  # Any: what a manifest holds at a path
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return value
