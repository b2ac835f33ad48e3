"""Events: what happened to a run, one JSON line each, written by every rank and by the supervisor."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainwright.runs import jsonl

Kind = Literal[
    "started", "rendezvous", "step", "saved", "verified", "evaluated", "signal", "restarted", "failed", "finished"
]  # fmt: skip
_END_OF_CLOCKS = 250e9  # seconds: in the year 9892, before calendars end
SUPERVISOR = "s"  # in place of a rank


@dataclass(frozen=True)
class EventLog:
    """Appends events of one rank in one attempt to ``events/<attempt>-<rank>.jsonl``."""

    folder: Path
    run_id: str
    attempt: int
    rank: int | str

    def write(self, kind: Kind, **fields: Any) -> None:
        """Append one event. Fields must be plain JSON values; secrets must not be among them."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {"v": 1, "t": time.time(), "run_id": self.run_id, "attempt": self.attempt, "rank": self.rank}
        jsonl.append(self.folder / f"{self.attempt}-{self.rank}.jsonl", {**record, "kind": kind, **fields})


def read_events(folder: Path) -> list[dict[str, Any]]:
    """Every event of a run in order of time. An event whose time is none that a clock shows has time 0."""
    found = [
        {**event, "t": _time(event.get("t"))}
        for path in sorted(folder.glob("*.jsonl"))
        for event in jsonl.read(path)
        if isinstance(event.get("kind"), str)
    ]
    return sorted(found, key=lambda event: event["t"])


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < _END_OF_CLOCKS else 0.0
