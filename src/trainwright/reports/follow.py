"""Follow a run from its files: what is new since the last look, as lines for a person, and the line that lives.

Reads the run folder only, so that it works for any target and can stop and start again at any time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from trainwright import plain_json
from trainwright.reports.words import amount, bytes_, duration, number
from trainwright.runs import events, measurements
from trainwright.runs.folder import RunFolder
from trainwright.runs.progress import Snapshot, read_progress


@dataclass
class _Tail:
    """The whole records of a growing JSON-lines file that were not given yet."""

    path: Path
    offset: int = 0

    def new(self) -> Iterator[dict[str, Any]]:
        try:
            with self.path.open("rb") as handle:
                handle.seek(self.offset)
                content = handle.read()
        except OSError:
            return
        whole, newline, _ = content.rpartition(b"\n")
        self.offset += len(whole) + len(newline)
        for line in whole.split(b"\n"):
            try:
                record = plain_json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record


class Follower:
    """``lines()`` gives what happened since the last call; ``live()`` the one line that changes in place.

    ``attempt`` is the one that runs now: failures of earlier ones are told as what they are.
    """

    def __init__(self, folder: RunFolder, attempt: int = 1):
        self._folder = folder
        self._metrics = _Tail(folder.metrics)
        self._events: dict[Path, _Tail] = {}
        self._total_steps: int | None = None
        self._last_step: dict[str, Any] | None = None
        self._seconds: deque[float] = deque(maxlen=5)
        self._stage = ""
        self._signalled: set[object] = set()  # attempts whose signal was told
        self._attempt = attempt

    def lines(self) -> list[str]:
        """Lines to print for good, oldest first."""
        found = [(_time(r), line) for r in self._new_events() if (line := self._event_line(r))]
        found += [(_time(r), line) for r in self._new_metrics() if (line := self._metric_line(r))]
        return [line for _, line in sorted(found, key=lambda item: item[0])]

    def live(self) -> str:
        """How far the running stage is, in one line that may change in place; empty when there is nothing to say."""
        if self._stage == "train" and self._last_step is not None:
            return self._time_left(self._last_step)
        return self.waiting()

    def waiting(self) -> str:
        """How far work is that prints no lines of its own; empty while training, whose steps tell."""
        if self._stage == "train" and self._last_step is not None:
            return ""
        snapshot = read_progress(self._folder.progress)
        return progress_line(snapshot) if snapshot and snapshot.done != snapshot.total else ""

    def fraction(self) -> float | None:
        """Share of the running stage that is done, or None."""
        if self._stage == "train" and self._last_step and self._total_steps:
            return min(1.0, float(self._last_step["step"]) / self._total_steps)
        snapshot = read_progress(self._folder.progress)
        return snapshot.done / snapshot.total if snapshot and snapshot.total else None

    def _new_events(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self._folder.events.glob("*.jsonl")):
            for record in self._events.setdefault(path, _Tail(path)).new():
                if (event := events.sound(record)) is not None:
                    yield event

    def _new_metrics(self) -> Iterator[dict[str, Any]]:
        for record in self._metrics.new():
            if (checked := measurements.sound(record)) is not None:
                yield checked

    def _event_line(self, event: dict[str, Any]) -> str | None:
        kind, stage = event.get("kind"), event.get("stage")
        first = event.get("rank") in (0, "s")
        if kind == "started" and event.get("steps"):
            self._total_steps = int(event["steps"])
        if kind == "started" and stage and first:
            self._stage = str(stage)
            return f"{self._stage} …"
        if kind == "saved" and first:
            return f"  checkpoint {event.get('step')} saved" + (
                f" ({bytes_(event['bytes'])})" if "bytes" in event else ""
            )
        if kind == "signal" and first:
            if event.get("attempt") in self._signalled:  # the supervisor's and rank 0's are one
                return None
            self._signalled.add(event.get("attempt"))
            return f"  {event.get('signal', 'signal')} received: finishing the step, then saving"
        if kind == "restarted":
            return (
                f"  restarted (attempt {event.get('attempt')}): {event.get('why', event.get('reason', ''))}".rstrip(
                    ": "
                )
            )
        if kind == "failed":
            said = event.get("exception") or event.get("line") or f"exit code {event.get('code')}"
            number = event.get("attempt")
            earlier = f"earlier, in attempt {number}, " if type(number) is int and number < self._attempt else ""
            return f"  {earlier}failed on {_who(event)}: {said}"
        return None

    def _metric_line(self, record: dict[str, Any]) -> str | None:
        if record.get("kind") == "eval":
            perplexity = record.get("perplexity")
            return f"  step {record.get('step')}: held-out loss {number(record.get('eval_loss'))}" + (
                f", perplexity {number(perplexity)}" if perplexity is not None else ""
            )
        if record.get("kind") == "step":
            self._last_step = record
            if isinstance(record.get("seconds"), int | float):
                self._seconds.append(float(record["seconds"]))
            return "  " + self._step_line(record)
        return None

    def _step_line(self, record: dict[str, Any]) -> str:
        step, total = int(record.get("step", 0)), self._total_steps
        parts = [
            f"step {step}" + (f"/{total}" if total else ""),
            f"loss {number(record.get('loss'))}",
            f"lr {number(record.get('lr'))}",
            f"{amount(record.get('tokens_per_s'))} tokens/s",
        ]
        if record.get("mfu") is not None:
            parts.append(f"MFU {100 * float(record['mfu']):.1f} %")
        if record.get("memory_bytes"):
            parts.append(bytes_(record["memory_bytes"]))
        return "  ".join([*parts, left]) if (left := self._time_left(record)) else "  ".join(parts)

    def _time_left(self, record: dict[str, Any]) -> str:
        step, total = int(record.get("step", 0)), self._total_steps
        if not total or step >= total or not self._seconds:
            return ""
        # an evaluation or a save makes one step long, and says nothing of the others
        return f"{duration((total - step) * median(self._seconds))} left"


def _time(record: dict[str, Any]) -> float:
    time = record.get("t")
    return float(time) if isinstance(time, int | float) else 0.0


def _who(event: dict[str, Any]) -> str:
    rank = event.get("rank")
    if rank == "s":
        return str(event.get("stage", "the supervisor"))
    return f"rank {rank}"


def progress_line(snapshot: Snapshot) -> str:
    """``tokenise 120/400 files, 12s left``."""
    if not snapshot.total and not snapshot.done:
        return f"{snapshot.what} …"
    total = f"/{snapshot.total:,}" if snapshot.total else ""
    left = f", {duration(snapshot.eta_seconds)} left" if snapshot.eta_seconds is not None else ""
    return f"{snapshot.what} {snapshot.done:,}{total}{left}"
