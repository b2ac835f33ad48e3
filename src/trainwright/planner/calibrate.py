"""Fits the machine's constants to measured runs of the user's own, and keeps them as a small facts file.

Two numbers are moved: the sustained share of peak (so that the predicted step takes as long as the measured one) and
the bytes that lie outside the model (so that the peak agrees). More would need more than one run to tell apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright import plain_json
from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.models.layout import Layout
from trainwright.planner.answer import Question
from trainwright.planner.constants import constants_for
from trainwright.planner.evaluate import evaluate
from trainwright.planner.step import StepModel

#: Steps at the start that a measurement leaves out: compilation, caches, allocator.
WARM_UP_STEPS = 3
_LOWEST, _HIGHEST = 0.02, 0.98


@dataclass(frozen=True)
class Calibration:
    """Constants that make a prediction agree with a measurement, and what they were fitted to."""

    accelerator: str
    chip: Mapping[str, float]
    stack: Mapping[str, float]
    measured_seconds: float
    predicted_seconds: float
    measured_bytes: int | None
    source: str

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values; ``read`` takes them back."""
        return {
            "accelerator": self.accelerator,
            "chip": dict(self.chip),
            "stack": dict(self.stack),
            "measured_seconds": self.measured_seconds,
            "predicted_seconds": self.predicted_seconds,
            "measured_bytes": self.measured_bytes,
            "source": self.source,
        }


def measured(metrics: Path) -> tuple[float, int | None]:
    """(median tokens/s over all ranks, peak bytes or None) of a run's ``metrics.jsonl``, without its first steps.

    The trainer's rates leave out saving and evaluating, and a line may stand for several steps.
    """
    rates: list[float] = []
    peaks: list[int] = []
    for row in _rows(metrics):
        if row.get("kind", "step") != "step":
            continue
        if (rate := _positive(row.get("tokens_per_s"))) is not None:
            rates.append(rate)
        if (peak := _positive(row.get("memory_bytes"))) is not None:
            peaks.append(int(peak))
    steady = rates[WARM_UP_STEPS:]
    if not steady:
        raise AnswerNo(
            f"{metrics} holds {len(rates)} timed steps; more than {WARM_UP_STEPS} are needed", "train longer first"
        )
    return statistics.median(steady), max(peaks) if peaks else None


def _rows(metrics: Path) -> Iterator[dict[str, Any]]:
    """Whole JSON lines; one cut off by a crash is skipped."""
    try:
        lines = metrics.read_text("utf-8", errors="replace").splitlines()
    except OSError as error:
        what = f"cannot be read: {error.strerror}"
        raise InputError(
            [Problem(str(metrics), what=what, instead="name the folder of a run that trained")]
        ) from error
    for line in lines:
        try:
            row = plain_json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _positive(value: object) -> float | None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")
    return float(value) if good else None  # type: ignore[arg-type]


def calibrate(question: Question, layout: Layout, seconds: float, peak: int | None, source: str) -> Calibration:
    """Solve for the sustained share of peak by bisection. AnswerNo when no share from 2 to 98 % explains the run."""
    machine, workload = question.machine, question.workload

    def predicted(share: float) -> float:
        overlay = {"chip": {"gemm_efficiency": share, "gemm_efficiency_fp8": share}}
        constants = constants_for(machine.accelerator, machine.fabric, workload.stack, overlay)
        return evaluate(StepModel(workload, machine, constants), layout).seconds.total

    before = evaluate(question.model, layout)
    if not predicted(_HIGHEST) <= seconds <= predicted(_LOWEST):
        raise AnswerNo(
            f"a step took {seconds:.3f} s; any share of peak explains only {predicted(_HIGHEST):.3f} to "
            f"{predicted(_LOWEST):.3f} s",
            "check the machine, the layout and that nothing else used the accelerators",
        )
    low, high = _LOWEST, _HIGHEST
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if predicted(middle) > seconds else (low, middle)
    stack: dict[str, float] = {}
    if peak is not None:
        fullest = max(before.ranks, key=lambda rank: rank.total)
        outside = question.constants.stack.reserve_bytes + (peak - (fullest.total - fullest.reserve))
        stack["reserve_bytes"] = max(0.0, outside)
    share = (low + high) / 2
    return Calibration(
        accelerator=machine.accelerator,
        chip={"gemm_efficiency": share, "gemm_efficiency_fp8": share},
        stack=stack,
        measured_seconds=seconds,
        predicted_seconds=before.seconds.total,
        measured_bytes=peak,
        source=source,
    )


def read(path: Path, accelerator: str) -> dict[str, dict[str, float]]:
    """The overlay in a calibration file of this accelerator; InputError names what is wrong with it."""
    try:
        values = plain_json.loads(path.read_text("utf-8"))
        if not isinstance(values, dict) or not all(isinstance(values.get(p), dict) for p in ("chip", "stack")):
            raise ValueError("chip and stack, each with names and numbers, are needed")
        fitted = values.get("accelerator", accelerator)
        if fitted != accelerator:
            what = f"was fitted on {fitted}, not on {accelerator}"
            raise InputError(
                [Problem(str(path), field="accelerator", what=what, instead="calibrate this machine too")]
            )
        return {part: {k: float(v) for k, v in values[part].items()} for part in ("chip", "stack")}
    except OSError as error:
        raise InputError([Problem(str(path), what=f"cannot be read: {error.strerror}")]) from error
    except (ValueError, TypeError, RecursionError) as error:
        way = "write one with `trainwright plan --calibrate RUN`"
        raise InputError([Problem(str(path), what=f"is not a calibration: {error}", instead=way)]) from error
