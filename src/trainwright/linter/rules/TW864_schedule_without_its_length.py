"""TW864: a DeepSpeed schedule that must know how long the run is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from trainwright.linter.documents import ConfigDocument, Role
from trainwright.linter.project import Project
from trainwright.linter.rule import ConfigRule, Hit

_NEED_LENGTH = ("WarmupDecayLR", "WarmupCosineLR")


class ScheduleWithoutItsLength(ConfigRule):
    """``total_num_steps`` has no default."""

    id = "TW864"
    severity = "error"
    category = "frameworks"
    summary = "a decaying DeepSpeed schedule without total_num_steps"
    evidence = "verified"
    source = (
        "deepspeed/runtime/lr_schedules.py (0.19): total_num_steps of WarmupDecayLR and WarmupCosineLR has no default"
    )
    roles: ClassVar[tuple[Role, ...]] = ("deepspeed",)

    def check(self, subject: ConfigDocument, project: Project) -> Iterator[Hit]:
        """The scheduler section."""
        section = subject.get("scheduler")
        kind, parameters = section.get("type"), section.get("params")
        if kind.string not in _NEED_LENGTH or section.open or parameters.open or parameters.unknown:
            return
        if not parameters.get("total_num_steps").exists:
            yield self.hit(
                kind,
                f"{kind.string} decays until total_num_steps, which is not given: DeepSpeed stops with a TypeError "
                "when it builds the schedule, on every rank (the Hugging Face Trainer fills in only what says auto)",
                '"total_num_steps": the steps of the run, or "auto" under the Hugging Face Trainer',
            )
