"""TW740: workers of an MPIJob that do not run an SSH server."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, PodRule, Pods

_NO_SERVER = ("sleep", "tail", "python", "python3", "torchrun", "mpirun", "nvidia-smi")


class MpiWorkerWithoutSshd(PodRule):
    """mpirun reaches the workers by ssh; the operator starts sshd where nothing else is said."""

    id = "TW740"
    severity = "error"
    category = "operators"
    summary = "a command of its own keeps an MPIJob's worker from running sshd"
    evidence = "verified"
    source = (
        "kubeflow/mpi-operator 0.8 pkg/controller/mpi_job_controller.go, newWorker: command and args of the worker "
        "are set to /usr/sbin/sshd -De when both are empty"
    )

    def check(self, subject: Pods, project: Project) -> Iterator[Hit]:
        """Worker containers whose command is certainly something else."""
        job, group = subject.job, subject.group
        if job.frontend != "MPIJob" or group.role != "worker" or job.object is None:
            return
        if job.object.version != "v2beta1" or not group.main_containers:
            return
        node = group.main_containers[0].node
        words = [*node.get("command").elements(), *node.get("args").elements()]
        if not words or any(word.string is None for word in words):
            return
        texts = [word.string or "" for word in words]
        shell = texts[0].rsplit("/", 1)[-1] in ("sh", "bash") and len(texts) > 2 and texts[1].endswith("c")
        first = (texts[2].split() or [""])[0] if shell else texts[0]
        if first.rsplit("/", 1)[-1] not in _NO_SERVER or "ssh" in " ".join(texts):
            return
        yield self.hit(
            words[0],
            f"the worker runs {first} in place of an SSH server, which the operator starts only where no command is "
            "given: mpirun reaches no worker, the launcher fails, and the workers hold their accelerators",
            "no command and args on the worker (the launcher starts the program there), or /usr/sbin/sshd -De",
        )
