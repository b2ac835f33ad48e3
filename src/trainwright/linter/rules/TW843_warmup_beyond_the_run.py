"""TW843: steps that the run never reaches."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.view.trainer import TrainerArguments


class WarmupBeyondTheRun(TrainerRule):
    """``max_steps`` bounds everything that is counted in steps."""

    id = "TW843"
    severity = "warning"
    category = "frameworks"
    summary = "warm-up or saving takes longer than the whole run"
    evidence = "verified"
    source = "transformers/training_args.py (5.24): warmup_steps, max_steps and save_steps count optimizer steps"

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Intervals above the number of steps."""
        total = subject.number("max_steps", "train_iters", "training.steps").known
        if not total or total < 2:
            return
        warmup = subject.number("warmup_steps", "lr_warmup_iters", "lr_scheduler.warmup_steps")
        if warmup.known and warmup.known >= total:
            yield self.hit(warmup, f"the warm-up takes {warmup.known} steps, but the run ends after {total}: the "
                f"learning rate "
                           f"is never reached", f"a few percent of {total}")  # fmt: skip
        saves = subject.number("save_steps", "save_interval", "checkpoint.interval")
        if saves.known and saves.known > total and total > 100:
            yield self.hit(saves, f"a checkpoint is written every {saves.known} steps, but the run ends after "
                f"{total}: an "
                           f"interruption loses all of it", f"a save interval well below {total}")  # fmt: skip
