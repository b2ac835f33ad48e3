"""Which checkpoint becomes the model: the one with the lowest held-out loss, if it is whole.

Takes a folder of checkpoints and held-out results by step, gives one checkpoint and the reason in a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright.checkpoints.format import Checkpoint, Damage, step_folders, step_of
from trainwright.checkpoints.resume import at_step, candidates
from trainwright.checkpoints.verify import Progress, verify
from trainwright.errors import AnswerNo, InputError, Problem
from trainwright.evaluation.results import Point


@dataclass(frozen=True)
class Chosen:
    """A whole checkpoint, why it was chosen, and which ones were passed over for damage."""

    checkpoint: Checkpoint
    why: str
    damaged: tuple[str, ...] = ()


def choose(
    folder: Path, points: Mapping[int, Point], *, step: int | None = None, progress: Progress | None = None
) -> Chosen:
    """The best whole checkpoint, or that of ``step``. AnswerNo when there is none, or the one asked for is
    damaged; InputError when there is none of that step.

    Best is the lowest finite held-out loss measured at exactly the checkpoint's step; without any such measurement
    it is the newest checkpoint.
    """
    if step is not None:
        known = [step_of(path.name) for path in step_folders(folder)]
        if step not in known:
            what = f"holds no checkpoint of step {step}"
            instead = f"the steps are {', '.join(map(str, reversed(known)))}" if known else "train first"
            raise InputError([Problem(str(folder), what=what, instead=instead)])
        return Chosen(at_step(folder, step, progress=progress), f"step {step} was asked for")
    damaged: list[str] = []

    def report(path: Path, damage: list[Damage]) -> None:
        damaged.append(f"{path.name}: {'; '.join(map(str, damage))}")

    found = list(candidates(folder, report))
    for checkpoint in sorted(found, key=lambda checkpoint: (_loss(checkpoint, points), -checkpoint.step)):
        if damage := verify(checkpoint, progress=progress):
            report(checkpoint.folder, damage)
            continue
        return Chosen(checkpoint, _reason(checkpoint, found, points), tuple(damaged))
    what = "has no whole checkpoint" + (f" ({'; '.join(damaged)})" if damaged else "")
    raise AnswerNo(f"{folder} {what}", "train first: `trainwright resume` goes on with an unfinished run")


def _loss(checkpoint: Checkpoint, points: Mapping[int, Point]) -> float:
    point = points.get(checkpoint.step)
    return point.result.eval_loss if point and math.isfinite(point.result.eval_loss) else math.inf


def _reason(checkpoint: Checkpoint, found: list[Checkpoint], points: Mapping[int, Point]) -> str:
    loss = _loss(checkpoint, points)
    if math.isinf(loss):
        return "the newest whole checkpoint; no held-out loss was measured at a checkpoint"
    measured = sum(math.isfinite(_loss(other, points)) for other in found)
    if measured == 1:
        return f"held-out loss {loss:.4f}, the only checkpoint where it was measured"
    return f"held-out loss {loss:.4f}, the lowest of {measured} checkpoints"
