"""evaluation.json: everything measured on a run's model, as one value that is written once and read by many.

Takes metrics lines and results; gives plain data. Numbers that are not finite are written as null: JSON has no NaN.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.evaluation.held_out import HeldOut
from trainwright.evaluation.samples import Sample
from trainwright.evaluation.tasks import TaskResult
from trainwright.runs import folder
from trainwright.runs.measurements import read_metrics

VERSION = 1


@dataclass(frozen=True)
class Point:
    """Held-out evaluation at one step."""

    step: int
    result: HeldOut

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return {"step": self.step, **self.result.to_dict()}


@dataclass(frozen=True)
class Evaluation:
    """What is known about a model: held-out loss before and at its step, task scores and samples."""

    run_id: str
    step: int
    chosen: str
    """Why this step: one sentence."""
    baseline: Point | None = None
    held_out: Point | None = None
    tasks: tuple[TaskResult, ...] = ()
    samples: tuple[Sample, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def metrics(self) -> dict[str, float]:
        """Every number that a gate may name."""
        values: dict[str, float] = {task.name: task.score for task in self.tasks}
        if self.held_out:
            result = self.held_out.result
            values |= {"eval_loss": result.eval_loss, "perplexity": result.perplexity}
            if result.bits_per_byte is not None:
                values["bits_per_byte"] = result.bits_per_byte
        if self.baseline:
            values["baseline"] = self.baseline.result.eval_loss
        return values

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, every number finite or null."""
        values = {
            "v": VERSION,
            "run_id": self.run_id,
            "step": self.step,
            "chosen": self.chosen,
            "baseline": self.baseline.to_dict() if self.baseline else None,
            "held_out": self.held_out.to_dict() if self.held_out else None,
            "tasks": [task.to_dict() for task in self.tasks],
            "samples": [sample.to_dict() for sample in self.samples],
            "metrics": self.metrics,
            "notes": list(self.notes),
        }
        return finite(values)  # type: ignore[no-any-return]  # a dict stays a dict


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace evaluation.json in one step."""
    folder.write_atomically(path, json.dumps(finite(values), indent=2, ensure_ascii=False) + "\n")


def finite(value: Any) -> Any:
    """The same plain data with NaN and infinities as None."""
    if isinstance(value, Mapping):
        return {key: finite(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [finite(child) for child in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def points(metrics: Path) -> dict[int, Point]:
    """Held-out results of a metrics.jsonl by step, those without a loss left out.

    Of a step measured again after a resume the last one counts.
    """
    found: dict[int, Point] = {}
    for record in read_metrics(metrics, "eval"):
        if record.get("eval_loss") is not None:
            result = HeldOut(
                float(record["eval_loss"]),
                float(record.get("perplexity") or math.inf),
                record.get("bits_per_byte"),
                int(record.get("eval_tokens") or 0),
            )
            found[record["step"]] = Point(record["step"], result)
    return dict(sorted(found.items()))
