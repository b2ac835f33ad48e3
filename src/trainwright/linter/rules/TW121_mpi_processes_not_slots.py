"""TW121: mpirun starts another number of processes than there are slots."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import (
    Hit,
    LaunchRule,
)
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch


def _slots(launch: JobLaunch) -> int | None:
    job = launch.job
    if job.frontend == "MPIJob":
        nodes, each = job.nodes.known, job.slots.known
        if nodes is None or each is None:
            return None
        return (nodes + (job.get("spec", "runLauncherAsWorker").boolean is True)) * each
    if job.slurm is None:
        return None
    total, nodes, tasks = job.slurm.ntasks.known, job.slurm.nodes.known, job.slurm.ntasks_per_node.known
    return total if total is not None else nodes * tasks if nodes and tasks else None


class MpiProcessesNotSlots(LaunchRule):
    """``-np`` is workers × slots."""

    id = "TW121"
    severity = "error"
    category = "launch"
    summary = "mpirun starts another number of processes than there are slots"
    evidence = "verified"
    source = (
        "Open MPI: there are not enough slots available; mpi-operator writes slots=slotsPerWorker per "
        "worker into the hostfile (0.8.0)"
    )

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Processes against slots."""
        asked = subject.flags.number("np")
        if subject.launch.of("mpirun") is None or subject.tool != "mpirun" or not isinstance(asked, Known):
            return
        placed = (subject.flags.text("map_by").known or "").lower()
        if subject.flags.has("oversubscribe", "npernode", "use_hwthread_cpus", "hostfile", "host") or (
            subject.flags.has("map_by") and placed not in ("slot", "node", "core", "socket", "numa")
        ):
            return
        slots = _slots(subject)
        if not slots or asked.value == slots:
            return
        if asked.value > slots:
            yield self.hit(
                asked,
                f"mpirun is to start {asked.value} processes, but there are {slots} slots: it stops "
                'with "not enough slots available"',
                f"-np {slots}, or more workers",
            )
        elif subject.job.frontend == "MPIJob":
            yield self.hit(
                asked,
                f"mpirun starts {asked.value} processes on {slots} slots: {slots - asked.value} slots "
                "and their accelerators are held and idle",
                f"-np {slots}",
                severity="warning",
            )
