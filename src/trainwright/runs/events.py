"""Events: what happened to a run, one JSON line each, written by every rank and by the supervisor."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trainwright.errors import SystemUnreachable
from trainwright.runs import jsonl
from trainwright.runs.measurements import number

Kind = Literal[
    "started", "rendezvous", "step", "saved", "verified", "evaluated", "signal", "restarted", "failed", "finished"
]  # fmt: skip
_END_OF_CLOCKS = 250e9  # seconds: in the year 9892, before calendars end
_COUNTS = frozenset({"attempt", "step", "steps", "bytes", "seconds"})
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
    """Every sound event of a run in order of time. A file that cannot be read hides no other."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.jsonl")):
        with contextlib.suppress(SystemUnreachable):
            found += [event for line in jsonl.read(path) if (event := sound(line)) is not None]
    return sorted(found, key=lambda event: event["t"])


def sound(record: dict[str, Any]) -> dict[str, Any] | None:
    """The event without the counts that are none; None where nothing says what happened, or to whom.

    An event whose time is none that a clock shows has time 0.
    """
    if not isinstance(record.get("kind"), str) or not isinstance(record.get("rank"), int | str | None):
        return None
    kept = {name: value for name, value in record.items() if name not in _COUNTS or number(value) is not None}
    return {**kept, "t": _time(record.get("t"))}


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < _END_OF_CLOCKS else 0.0
