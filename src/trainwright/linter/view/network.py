"""The network a job is set up for: whether it spans nodes, whether it uses EFA, and every variable that steers it.

Takes a TrainingJob; gives Variables with their places. It must not know what a value should be.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.shell.words import Variable
from trainwright.linter.values import Absent
from trainwright.linter.view.job import TrainingJob
from trainwright.linter.view.pods import EFA, PodGroup
from trainwright.linter.view.rendezvous import nodes_at_least_two

IFNAMES = (
    "NCCL_SOCKET_IFNAME",
    "GLOO_SOCKET_IFNAME",
    "TP_SOCKET_IFNAME",
    "NCCL_OOB_NET_IFNAME",
    "HCCL_SOCKET_IFNAME",
)
_OFF = ("0", "", "false", "no", "off", "n")


def spans_nodes(job: TrainingJob) -> bool:
    """Whether the job certainly runs on several nodes."""
    if job.multi_node and job.ends:
        return True
    return any(nodes_at_least_two(launch) is not None for launch in job.training_launches)


def stage_of_its_own(group: PodGroup) -> bool:
    """Whether a group is one pod that starts when another has ended: it has nobody to talk to."""
    waits = group.entry.get("dependsOn").elements()
    return group.count.known == 1 and any(one.get("status").string == "Complete" for one in waits)


def uses_efa(job: TrainingJob) -> bool:
    """Whether it asks for EFA devices or tells libfabric to use them."""
    if any(not isinstance(container.request(EFA), Absent) for container in job.containers()):
        return True
    return any((variable.value.known or "").lower() == "efa" for variable in job.env_uses("FI_PROVIDER"))


def is_on(variable: Variable) -> bool:
    """Whether a switch is certainly on."""
    value = variable.value.known
    return value is not None and value.strip().lower() not in _OFF


def settings(job: TrainingJob, group: PodGroup, *names: str) -> Iterator[Variable]:
    """Every place that sets one of these variables for the processes of a group: its containers, the scripts they
    run, and what a launcher pod passes on to it."""
    seen: set[tuple[int, int]] = set()
    sources: list[dict[str, Variable]] = [dict(container.env) for container in group.main_containers]
    sources += [
        dict(launch.launch.variables)
        for launch in job.launches
        if launch.group is group
        or (launch.group is not None and job.spreads(launch.group) and group.role == "worker")
    ]
    for variables in sources:
        for name in names:
            variable = variables.get(name)
            if variable is None or variable.place is None or variable.origin in ("operator", "slurm"):
                continue
            place = (id(variable.place.text.root()), variable.place.start)
            if place not in seen and (variable.exported or variable.origin == "kubernetes"):
                seen.add(place)
                yield variable


def interfaces(text: str) -> tuple[bool, bool, list[str]]:
    """A ``NCCL_SOCKET_IFNAME`` value: whether it excludes (^), whether it is exact (=), and its entries."""
    rest = text.strip()
    excludes = rest.startswith("^")
    rest = rest[1:] if excludes else rest
    exact = rest.startswith("=")
    rest = rest[1:] if exact else rest
    return excludes, exact, [entry for entry in rest.split(",") if entry]


def covers(entries: list[str], interface: str, *, exact: bool = False) -> bool:
    """Whether a list names an interface: entries are prefixes unless the list is exact."""
    return any(interface == entry if exact else interface.startswith(entry) for entry in entries)


def extra_networks(group: PodGroup) -> bool:
    """Whether the pods get interfaces beside eth0 (Multus, GKE multi-networking), or a template may say so."""
    annotations = group.metadata.get("annotations")
    return (
        annotations.open
        or annotations.unknown
        or any("k8s.v1.cni.cncf.io" in key.raw or "networking.gke.io" in key.raw for key, _ in annotations.pairs())
    )
