"""How far a run has come, read from the end of its metrics and the names of its checkpoints. No torch."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from trainwright import plain_json
from trainwright.runs.folder import RunFolder

_CHECKPOINT = re.compile(r"step-(\d{8,})")
#: What the trainer's rank 0 prints after a step.
_LIVE = re.compile(r"step (?P<step>\d+)/\d+  loss (?P<loss>\S+)  .*?(?P<rate>[\d,]+) tokens/s")
_TAIL_BYTES = 64 * 1024


@dataclass(frozen=True)
class Step:
    """The last step that was logged. ``tokens_per_s`` is over all ranks; None where it was not logged."""

    step: int
    loss: float | None = None
    tokens_per_s: float | None = None


def last_step(run: RunFolder) -> Step | None:
    """The last logged step, or None before the first one (and for an own script, which logs as it likes).

    A client that shares no storage with the nodes has no metrics, but it may have rank 0's log.
    """
    for line in reversed(_tail(run.metrics).split(b"\n")):
        try:
            record = plain_json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("kind") == "step" and _count(record.get("step")):
            return Step(record["step"], _number(record.get("loss")), _number(record.get("tokens_per_s")))
    return None if run.metrics.exists() else _told(run)


def saved_step(run: RunFolder) -> int | None:
    """Step of the newest committed checkpoint, by its manifest being there; its bytes are not verified."""
    try:
        names = os.listdir(run.checkpoints)
    except OSError:
        return None
    found = [(int(match[1]), name) for name in names if (match := _CHECKPOINT.fullmatch(name))]
    committed = [step for step, name in found if (run.checkpoints / name / "manifest.json").is_file()]
    return max(committed, default=None)


def _told(run: RunFolder) -> Step | None:
    """The last step by the newest log of rank 0."""
    try:
        attempts = sorted((name for name in os.listdir(run.logs) if name.isascii() and name.isdigit()), key=int)
    except OSError:
        return None
    for attempt in reversed(attempts):
        for line in reversed(_tail(run.rank_log(int(attempt), 0)).decode(errors="replace").splitlines()):
            if found := _LIVE.match(line):
                return Step(int(found["step"]), float(found["loss"]), float(found["rate"].replace(",", "")))
    return None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _tail(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _TAIL_BYTES))
            return handle.read(_TAIL_BYTES)
    except OSError:
        return b""
