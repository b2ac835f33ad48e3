"""TW201: more processes than accelerators on a node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.values import Known
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.visible import at_most


class MoreProcessesThanAccelerators(LaunchRule):
    """Each process needs an accelerator of its own."""

    id = "TW201"
    severity = "error"
    category = "accelerators"
    summary = "a node starts more processes than it has accelerators"
    evidence = "reproduced"
    source = "cudaSetDevice on a missing ordinal fails; NVIDIA/nccl-tests#300, clessig/atmorep#77"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Processes per node against accelerators per node."""
        if subject.tool == "mpirun" and subject.group is not None:
            yield from self._ranks(subject)
            return
        tasks = subject.srun is not None and not subject.tool
        processes = subject.copies_per_node if tasks else subject.processes_per_node
        held = subject.accelerators_per_node.known
        most = at_most(subject, project)
        if (
            not isinstance(processes, Known)
            or not held
            or most is None
            or subject.tool == "mpirun"
            or subject.job.frontend in ("RayJob", "RayCluster")
        ):
            return
        resource = subject.job.accelerator or ""
        if processes.value > most and "mig" not in resource:
            name = "GPUs" if "gpu" in resource else resource
            yield self.hit(
                processes,
                f"{processes.value} processes start on a node that gets {held} "
                f"{name}: those above find no device (invalid device ordinal) or share one (duplicate GPU "
                f"detected)",
                f"start {most} processes per node, or ask for {processes.value} {name}",
                severity="warning" if tasks else None,
            )

    def _ranks(self, subject: JobLaunch) -> Iterator[Hit]:
        """mpirun of an MPIJob: all ranks against the accelerators of all workers."""
        ranks, nodes, held = subject.world_size, subject.job.nodes.known, subject.accelerators_per_node.known
        if not isinstance(ranks, Known) or not nodes or not held or not subject.launch.is_python:
            return
        both = subject.job.get("spec", "runLauncherAsWorker")
        if both.unknown:
            return
        nodes += both.boolean is True  # the launcher takes ranks on its own accelerators as well
        if ranks.value > nodes * held and "mig" not in (subject.job.accelerator or ""):
            yield self.hit(
                ranks,
                f"{ranks.value} ranks run on {nodes} workers with {held} accelerators each ({nodes * held}): those "
                "above find no device, or share one with another rank (NCCL stops with duplicate GPU detected)",
                f"-np {nodes * held}, slotsPerWorker: {held}, or {-(-ranks.value // nodes)} accelerators per worker",
            )
