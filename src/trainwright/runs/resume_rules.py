"""Which fields of a spec may change when a run is resumed, and why the others may not.

A resumed run goes on with the same weights, optimizer state and count of samples. A change is let pass when the
losses before and after it still belong to one curve; anything else is another run. Pure: two specs in, refusals
out; reads and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from trainwright.errors import Problem
from trainwright.spec.model import RunSpec

#: Dotted fields that may change, each with all that lies under it.
MAY_CHANGE = (
    "duration", "early_stopping",  # how far to go
    "logging_steps", "tracking", "checkpoint", "evaluate",  # what is written and measured, and when
    "target", "compute", "parallelism", "micro_batch_size", "recompute", "offload", "data.workers",  # where, how cut
    "retry", "register", "secrets", "model.token",  # around the training
)  # fmt: skip

_SAMPLES = "the position in the data is a count of samples, and the same count would mean other samples"
_STATE = "the saved weights and optimizer state belong to the old value"
_NUMBERS = "the losses before and after would not belong to one curve"

#: First part of a refused field → why.
_WHY = {
    "version": "it names the format of the spec",
    "name": "it names the folder of the run",
    "storage": "the run's checkpoints stay where they are",
    "model": _STATE,
    "objective": _STATE,
    "method": _STATE,
    "lora": _STATE,
    "optimizer": _STATE,
    "engine": "the checkpoints are in the format of the old engine",
    "data": _SAMPLES,
    "sequence_length": _SAMPLES,
    "global_batch_size": _SAMPLES,
    "seed": _SAMPLES,
    "train": "what your script makes of other arguments or code is not known here",
}


@dataclass(frozen=True)
class Refusal:
    """One changed field that a resumed run cannot take."""

    field: str
    old: Any
    new: Any
    why: str

    def problem(self, path: str) -> Problem:
        """As it is told to a user."""
        what = f"cannot change from {_shown(self.old)} to {_shown(self.new)} in a run that has begun: {self.why}"
        return Problem(path, field=self.field, what=what, instead="edit your spec file and start it as another run")


def refusals(old: RunSpec, new: RunSpec) -> list[Refusal]:
    """Every change from ``old`` to ``new`` that is refused, in the order of the spec's fields."""
    return [
        Refusal(field, before, after, _WHY.get(field.partition(".")[0], _NUMBERS))
        for field, before, after in changes(old.to_dict(), new.to_dict())
        if not any(field == free or field.startswith(f"{free}.") for free in MAY_CHANGE)
    ]


def changes(old: Any, new: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """``(dotted field, old value, new value)`` of every leaf that differs; a list is a leaf."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in [*old, *(name for name in new if name not in old)]:
            yield from changes(old.get(name), new.get(name), f"{field}.{name}" if field else name)
    elif old != new:
        yield field, old, new


def _shown(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
