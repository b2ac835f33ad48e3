"""TW514: a job that is started again does not resume."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, LaunchRule
from trainwright.linter.shell.flags import Flag
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.nodepools import on_spot
from trainwright.linter.view.saving import resume_flag, resume_flag_off, resumes_by_itself, saves

_DECIDED_ELSEWHERE = ("config", "config_file", "cfg", "config_path", "config_name", "config_dir", "c", "yaml", "conf",
                      "job.config_file", "recipe", "exp")  # fmt: skip


class RestartsFromScratch(LaunchRule):
    """Requeue, retry and spot are useless without resuming."""

    id = "TW514"
    severity = "warning"
    category = "lifecycle"
    summary = "the job is started again after an interruption, but the program is not told to resume"
    evidence = "verified"
    source = "sbatch(1), --requeue: the batch script starts from its beginning; EC2 Spot documentation"

    def check(self, subject: JobLaunch, project: Project) -> Iterator[Hit]:
        """Training options of jobs that restart."""
        arguments = subject.arguments
        if not self._trains(subject) or arguments.open or resume_flag(arguments) is not None:
            return
        overwrites = arguments.switch("overwrite_output_dir")
        off = resume_flag_off(arguments)
        if arguments.has(*_DECIDED_ELSEWHERE) and off is None and overwrites.known is not True:
            return
        if any((word.known or "").endswith((".yaml", ".yml", ".toml", ".json")) for word in subject.program.operands):
            return
        if any("enable_checkpoint" in flag.name or flag.name.endswith("checkpoint.enable") for flag in arguments):
            return
        reason, certain = self._restarts(subject, project)
        if not reason:
            return
        if off is not None:
            where: Flag | None = off
            why = f"{off.word.expanded} is switched off"
        elif overwrites.known is True:
            where = arguments.find("overwrite_output_dir")
            why = "--overwrite_output_dir throws the earlier checkpoints away"
        else:
            where = None
            why = "no option tells the program to resume"
            if not certain:
                return
        yield self.hit(
            where or subject.launch.program,
            f"{reason}, but {why}: every interruption costs all the work up to then",
            "--resume_from_checkpoint (or what the program calls it) with a checkpoint folder on shared storage",
        )

    def _trains(self, subject: JobLaunch) -> bool:
        """Whether the program trains, as far as its name and options tell."""
        name = subject.launch.script.lower()
        words = ("train", "finetune", "fine_tune", "sft", "pretrain", "dpo", "grpo", "run_clm", "run_mlm", "main.py")
        if resumes_by_itself(subject):
            return False
        return subject.job.ends and (any(word in name for word in words) or saves(subject.arguments) is not None)

    def _restarts(self, subject: JobLaunch, project: Project) -> tuple[str, bool]:
        """Why the job is started again ("" when it is not), and whether that is certain to happen now and then."""
        job, group = subject.job, subject.group
        if job.slurm is not None:
            if not job.slurm.flags.has("requeue"):
                return "", False
            handled = job.script is not None and any(
                reference.name == "SLURM_RESTART_COUNT"
                for command in job.script.plain.commands
                for word in command.words
                for reference in word.all_references()
            )
            return ("", False) if handled else ("Slurm requeues the job", True)
        if group is None:
            return "", False
        spot = on_spot(job, group, project)
        if spot is not None:
            return "the pods run on spot capacity, which is taken away at two minutes' notice", True
        limit = job.get("spec", "backoffLimit").integer
        if job.frontend == "Job" and limit is not None and limit > 0:
            return f"the Job is retried up to {limit} times", False
        restarts = job.get("spec", "failurePolicy", "maxRestarts").integer
        if job.frontend == "JobSet" and restarts:
            return f"the JobSet is restarted up to {restarts} times", False
        return "", False
