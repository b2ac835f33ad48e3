"""TW808: --lr_scheduler_type does nothing when the DeepSpeed file has a scheduler."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.trainer import TrainerArguments

_SAME = {
    "WarmupLR": ("constant_with_warmup", "constant"),
    "WarmupDecayLR": ("linear",),
    "WarmupCosineLR": ("cosine", "cosine_with_min_lr"),
    "OneCycle": (),
    "LRRangeTest": (),
}


class SchedulerShadowed(TrainerRule):
    """A scheduler section wins over ``--lr_scheduler_type``."""

    id = "TW808"
    severity = "warning"
    category = "frameworks"
    summary = "the DeepSpeed file's scheduler replaces the one that the trainer is told to use"
    evidence = "verified"
    source = "transformers/integrations/deepspeed.py, deepspeed_optim_sched (5.24); hiyouga/LlamaFactory#1515"

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Pairs that mean different curves."""
        if subject.deepspeed is None or not subject.is_hugging_face:
            return
        kind = subject.deepspeed.get("scheduler", "type")
        asked = subject.text("lr_scheduler_type")
        same = _SAME.get(kind.string or "")
        if same is None or not isinstance(asked, Known) or asked.value.lower() in same:
            return
        yield self.hit(
            kind,
            f"the DeepSpeed file's scheduler {kind.string} is what runs; --lr_scheduler_type {asked.value} is ignored"
            + (", and WarmupLR never decays" if kind.string == "WarmupLR" else ""),
            f"no scheduler section (then --lr_scheduler_type {asked.value} is used)"
            + ("".join(f", or {name}" for name, equal in _SAME.items() if asked.value.lower() in equal)),
        )
