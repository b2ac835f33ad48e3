"""TW107: every node names itself as the meeting point."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.shell.words import Command, Reference
from trainwright.linter.view import rendezvous
from trainwright.linter.view.job import JobLaunch

_OWN_FIELDS = {"status.podIP", "status.podIPs", "status.hostIP", "metadata.name", "spec.nodeName"}
_OWN_NAMES = {"SLURMD_NODENAME", "HOSTNAME", "POD_IP", "POD_NAME", "HOST_IP", "SLURM_TOPOLOGY_ADDR"}


def _own_name(meeting: rendezvous.Meeting, launch: JobLaunch) -> str:
    """What makes the host a node's own, as written; "" when nothing does."""
    for found in rendezvous.by_each_task(meeting):
        if isinstance(found, Command):
            inner = [word.known for word in found.words]
            if found.name == "hostname" and not found.context & {"conditional", "loop"}:
                return "$(" + " ".join(text or "…" for text in inner) + ")"
        elif found.default is None and _is_own(found, launch):
            return f"${found.name}"
    if (
        meeting.option == "MASTER_ADDR"
        and launch.container is not None
        and _field(launch, "MASTER_ADDR") in _OWN_FIELDS
    ):
        return f"MASTER_ADDR from {_field(launch, 'MASTER_ADDR')}"
    return ""


def _is_own(reference: Reference, launch: JobLaunch) -> bool:
    if launch.container is not None and _field(launch, reference.name) in _OWN_FIELDS:
        return True
    variable = reference.variable
    return reference.name in _OWN_NAMES and (variable is None or variable.origin == "slurm")


def _field(launch: JobLaunch, name: str) -> str | None:
    if launch.container is None:
        return None
    return launch.container.env_node(name).get("valueFrom", "fieldRef", "fieldPath").string


class MeetsAtItself(LaunchRule):
    """The host must be the same on all nodes; one's own name is not."""

    id = "TW107"
    severity = "error"
    category = "launch"
    summary = "every node names itself as the meeting point"
    evidence = "reproduced"
    source = (
        "torchrun with its own address as master (PyTorch 2.15): rank 1 waits for itself, no output; audit "
        "of Trainium examples with status.podIP"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Hosts that each task or pod works out for itself."""
        nodes = rendezvous.nodes_at_least_two(subject)
        meeting = rendezvous.host(subject)
        if (
            nodes is None
            or meeting is None
            or meeting.host is not None
            or subject.launch.context & {"conditional", "loop"}
        ):
            return
        own = _own_name(meeting, subject)
        if not own:
            return
        yield self.hit(
            meeting.word,
            f"{own} is another address on each of the {nodes} nodes: every node waits for the others "
            "at itself, and none ever arrives",
            'an address computed once: HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n '
            "1) in the batch script"
            if subject.job.slurm is not None
            else "the DNS name of rank 0's pod, for example <job>-0.<headless service>",
        )
