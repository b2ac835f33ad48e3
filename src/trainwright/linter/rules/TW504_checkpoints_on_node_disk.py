"""TW504: a Slurm job saves to the disk of one node."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import commands_of, transfers_of

_LOCAL = ("/tmp/", "/var/tmp/", "/dev/shm/", "/local/", "/local_scratch/", "/localscratch/", "/mnt/nvme", "/nvme/",
          "/opt/dlami/nvme")  # fmt: skip
_VARIABLES = frozenset({"TMPDIR", "SLURM_TMPDIR", "LOCAL_SCRATCH", "LOCALSCRATCH", "JOB_TMPDIR"})


class CheckpointsOnNodeDisk(LaunchRule):
    """The next allocation is another node."""

    id = "TW504"
    severity = "warning"
    category = "lifecycle"
    summary = "a Slurm job saves checkpoints on the local disk of a node"
    evidence = "verified"
    source = "Slurm documentation: job_container/tmpfs and TmpFS are per node, and are cleaned when the job ends"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """The option that names the checkpoint folder."""
        path = subject.checkpoint_path
        commands = commands_of(subject.job, subject)
        if subject.job.frontend != "sbatch" or any(c.name in ("cp", "rsync", "mv", "tar") for c in commands):
            return
        if any(transfer.uploads for transfer in transfers_of(commands)):
            return
        where = path if path is not None and f"{path.value}/".startswith(_LOCAL) else None
        flags = [
            flag
            for flag in subject.arguments
            if flag.value is not None and (flag.name in ("output_dir", "save") or "ckpt" in flag.name)
        ]
        local = next(
            (flag for flag in flags if any(r.name in _VARIABLES for r in flag.value.all_references())),  # type: ignore[union-attr]
            None,
        )
        if where is None and local is None:
            return
        name = where.value if where is not None else local.value.written  # type: ignore[union-attr]
        several = " and each node of a sharded save holds only its own part" if subject.job.multi_node else ""
        yield self.hit(
            where or local,  # type: ignore[arg-type]
            f"checkpoints go to {name}, the local disk of a node: it is cleaned when the job ends, a requeued "
            "job gets "
            f"other nodes{several}",
            "a folder on the shared file system, or copy it there before the job ends",
        )
