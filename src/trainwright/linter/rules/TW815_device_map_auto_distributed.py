"""TW815: every process would spread the whole model over all GPUs."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.linter.project import Project
from trainwright.linter.rule import Hit, TrainerRule
from trainwright.linter.values import Known
from trainwright.linter.view.python import calls_of, literal
from trainwright.linter.view.trainer import TrainerArguments

_SPREAD = ("auto", "balanced", "balanced_low_0", "sequential")
_INSTEAD = 'no device_map (the launcher gives each process its GPU); {"": local_rank} for QLoRA with DDP'


class DeviceMapAutoDistributed(TrainerRule):
    """``device_map="auto"`` is for one process that owns all GPUs."""

    id = "TW815"
    severity = "error"
    category = "frameworks"
    summary = "device_map auto in a distributed run"
    evidence = "verified"
    source = (
        "accelerate/accelerator.py, prepare_model (1.15): \"You can't train a model that has been loaded "
        "with device_map='auto' in any distributed mode\"; QwenLM/Qwen#900"
    )

    def check(self, subject: TrainerArguments, project: Project) -> Iterator[Hit]:
        """Runs with several processes that ask for it."""
        if not subject.distributed:
            return
        told = subject.text("device_map", "model_args.device_map", "model.device_map")
        if isinstance(told, Known) and told.value in _SPREAD:
            yield self.hit(told, self._why(subject, told.value), _INSTEAD)
        elif subject.module is not None and not subject.states("device_map"):
            for call in calls_of(subject.module, ".from_pretrained", ".pipeline"):
                value = call.keyword("device_map")
                if literal(value) in _SPREAD and value is not None:
                    yield self.hit(subject.module.span(value), self._why(subject, str(literal(value))), _INSTEAD)

    def _why(self, subject: TrainerArguments, value: str) -> str:
        return (
            f"device_map {value} spreads the model over all GPUs, and each of the {subject.processes} processes does "
            f"so: Accelerate and ZeRO-3 refuse to start, others run out of memory"
        )
