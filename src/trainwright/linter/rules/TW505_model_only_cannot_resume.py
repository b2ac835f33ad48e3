"""TW505: a run that saves weights only is told to resume."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.job import JobLaunch
from trainwright.linter.view.saving import resume_flag
from trainwright.linter.view.trainer import TrainerArguments

_WHY = (
    "checkpoints hold the weights only, no optimizer, scheduler or random state, so the run cannot be "
    "resumed from them"
)


class ModelOnlyCannotResume(TrainerRule):
    """``save_only_model`` and resuming exclude one another."""

    id = "TW505"
    severity = "error"
    category = "lifecycle"
    summary = "save_only_model is on in a run that is told to resume"
    evidence = "verified"
    source = (
        "transformers 5.24 Trainer: save_only_model saves no optimizer, scheduler and RNG state, and "
        "DeepSpeed raises "
        '"Can\'t find a valid checkpoint"; hiyouga/LlamaFactory#5497; huggingface/transformers#27751'
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Options of the HF Trainer and of what wraps it."""
        arguments = subject.flags
        yield from self._in_file(subject)
        only = arguments.find("save_only_model", "save_model_only", "save_weights_only")
        if only is None or arguments.switch(only.name).known is not True:
            return
        resumes = resume_flag(arguments)
        sharded = arguments.find("deepspeed", "fsdp", "fsdp_config")
        best = arguments.switch("load_best_model_at_end")
        if resumes is not None:
            extra = ' (DeepSpeed stops with "Can\'t find a valid checkpoint")' if arguments.has("deepspeed") else ""
            yield self.hit(
                only,
                f"{_WHY}{extra}, but {resumes.word.expanded} asks for that",
                f"--{only.name} false: a restartable run needs its full state",
            )
        elif best.known is True and sharded is not None:
            yield self.hit(
                only,
                f"{_WHY}, and with --{sharded.name} the Trainer refuses save_only_model together with "
                "load_best_model_at_end",
                "drop one of them",
            )
        elif subject.launch is not None and _is_requeued(subject.launch):
            yield self.hit(only, f"{_WHY}, but the job is requeued", f"--{only.name} false", "warning")

    def _in_file(self, subject: TrainerArguments) -> Iterator[Hit]:
        """The same in a YAML file of the trainer's arguments."""
        only, resume = subject.node("save_only_model"), subject.node("resume_from_checkpoint")
        if only is None or only.boolean is not True or resume is None:
            return
        if resume.boolean or (resume.string or "").strip().lower() not in ("", "false", "none", "null"):
            yield self.hit(
                only,
                f"{_WHY}, but resume_from_checkpoint asks for that",
                "save_only_model: false: a restartable run needs its full state",
            )


def _is_requeued(launch: JobLaunch) -> bool:
    return launch.job.slurm is not None and launch.job.slurm.flags.has("requeue")
