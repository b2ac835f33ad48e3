"""What else is read when it lets a reason be told better: claims, sizes of nodes, who holds a queue's quota.

Takes a cluster and what was seen; gives values for a snapshot. All of it may be forbidden to a user: then it is left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trainwright.errors import TrainwrightError
from trainwright.targets.kubernetes.amounts import quantity
from trainwright.targets.kubernetes.cluster import Cluster, Object, Objects
from trainwright.targets.kubernetes.labels import RUN
from trainwright.targets.kubernetes.pod_view import pod_view
from trainwright.targets.kubernetes.resources import CLAIM, NODE
from trainwright.targets.kubernetes.snapshot import Queue

_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


def claims_of(cluster: Cluster, names: Sequence[str]) -> Mapping[str, Object | None] | None:
    """The claims of these names, None for one that is not there; None when they may not be read."""
    try:
        return {name: cluster.get(CLAIM, name) for name in names}
    except TrainwrightError:
        return None


def nodes_of(cluster: Cluster) -> tuple[Object, ...] | None:
    """All nodes; None when they may not be read."""
    try:
        return tuple(cluster.list(NODE))
    except TrainwrightError:
        return None


def holders_of(others: Iterable[Object], resource: str) -> dict[str, int]:
    """How much of a resource other runs hold, by run: pods that are on a node and have not ended."""
    found: dict[str, int] = {}
    for pod in others:
        view = pod_view(pod)
        name = str(((pod.get("metadata") or {}).get("labels") or {}).get(RUN) or view.name)
        count = dict(view.devices).get(resource, 0)
        if count and view.node and view.phase in ("Pending", "Running"):
            found[name] = found.get(name, 0) + count
    return found


def queue_of(cluster: Cluster, workload: Object) -> Queue | None:
    """The ClusterQueue behind a Workload: its quota, what is reserved, and by which jobs of this namespace."""
    local = str((workload.get("spec") or {}).get("queueName") or "")
    try:
        version = _served(cluster)
        if not local or version is None:
            return None
        about = cluster.get(cluster.resource(version, "LocalQueue"), local) or {}
        name = str((about.get("spec") or {}).get("clusterQueue") or "")
        queue = cluster.get(cluster.resource(version, "ClusterQueue"), name) if name else None
        loads = cluster.list(cluster.resource(version, "Workload"))
    except TrainwrightError:
        return None
    if queue is None:
        return None
    nominal: dict[str, int] = {}
    for group in (queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for one in flavor.get("resources") or ():
                nominal[str(one["name"])] = nominal.get(str(one["name"]), 0) + int(quantity(one.get("nominalQuota")))
    used: dict[str, int] = {}
    for flavor in (queue.get("status") or {}).get("flavorsReservation") or ():
        for one in flavor.get("resources") or ():
            used[str(one["name"])] = used.get(str(one["name"]), 0) + int(quantity(one.get("total")))
    return Queue(name, nominal, used, _holders(loads, workload, name))


def _holders(loads: Objects, waiting: Object, queue: str) -> tuple[tuple[str, Mapping[str, int]], ...]:
    own = (waiting.get("metadata") or {}).get("name")
    found = []
    for load in loads:
        admission = (load.get("status") or {}).get("admission") or {}
        about = load.get("metadata") or {}
        if not admission or about.get("name") == own or admission.get("clusterQueue") != queue:
            continue
        holds: dict[str, int] = {}
        for part in admission.get("podSetAssignments") or ():
            for resource, amount in (part.get("resourceUsage") or {}).items():
                holds[resource] = holds.get(resource, 0) + int(quantity(amount))
        owners = about.get("ownerReferences") or ()
        found.append((str(owners[0]["name"] if owners else about.get("name")), holds))
    return tuple(found)


def _served(cluster: Cluster) -> str | None:
    for version in _VERSIONS:
        try:
            cluster.resource(version, "Workload")
        except TrainwrightError:
            continue
        return version
    return None
