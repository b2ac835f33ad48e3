"""TW818: the best model can only be one that was saved when it was evaluated."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Absent, Known
from trainwright.linter.view.trainer import TrainerArguments


class BestModelNeedsMatchingSteps(TrainerRule):
    """Saving and evaluating must happen at the same steps."""

    id = "TW818"
    severity = "error"
    category = "frameworks"
    summary = "load_best_model_at_end with saves and evaluations that do not match"
    evidence = "verified"
    source = "transformers/training_args.py, _validate_args (5.24): ValueError"

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """What the Trainer itself refuses."""
        best = subject.switch("load_best_model_at_end")
        if not isinstance(best, Known) or not best.value:
            return
        save, evaluate = subject.text("save_strategy"), subject.text("eval_strategy", "evaluation_strategy")
        saving = "steps" if isinstance(save, Absent) else save.known
        evaluating = "no" if isinstance(evaluate, Absent) else evaluate.known
        if saving is None or evaluating is None or saving == "best":
            return
        if saving != evaluating:
            yield self.hit(
                best,
                f"load_best_model_at_end needs the same save and eval strategy, but they are {saving} and "
                f"{evaluating}: "
                f"the Trainer stops with a ValueError at start",
                f"--eval_strategy {saving} (and the same interval)"
                if saving != "no"
                else "--save_strategy like --eval_strategy",
            )
            return
        steps, every = subject.number("save_steps"), subject.number("eval_steps").known
        interval = 500 if isinstance(steps, Absent) else steps.known
        if saving == "steps" and interval and every and interval % every:
            yield self.hit(
                best,
                f"save_steps {interval} is no multiple of eval_steps {every}: with load_best_model_at_end the "
                f"Trainer stops "
                f"with a ValueError at start",
                f"--save_steps {every * max(1, round(interval / every))}",
            )
