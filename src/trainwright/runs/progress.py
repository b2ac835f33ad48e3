"""Progress of the stage that is running, in one small file that whoever watches can read."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trainwright.runs.folder import read_json, write_atomically

_INTERVAL = 0.5  # seconds between two writes: smooth to the eye, nothing to the disk


class Progress(Protocol):
    """Told by long work how far it is: ``done`` of ``total`` (None: not known) of ``what``."""

    def __call__(self, what: str, done: int, total: int | None) -> None: ...


def silent(what: str, done: int, total: int | None) -> None:
    """A Progress that shows nothing."""


@dataclass(frozen=True)
class Snapshot:
    """How far a piece of work is. ``seconds`` is the time since it began."""

    what: str
    done: int
    total: int | None
    seconds: float

    @property
    def eta_seconds(self) -> float | None:
        """Time to the end at the average speed so far; None while that is not known."""
        if self.total is None or self.done <= 0 or self.done > self.total:
            return None
        return self.seconds / self.done * (self.total - self.done)


class ProgressFile:
    """A ``Progress`` that keeps the file of a run current, at most twice a second."""

    def __init__(self, path: Path):
        self._path = path
        self._what = ""
        self._began = self._written = 0.0

    def __call__(self, what: str, done: int, total: int | None) -> None:
        now = time.monotonic()
        if what != self._what:
            self._what, self._began, self._written = what, now, 0.0
        if now - self._written < _INTERVAL and done != total:
            return
        self._written = now
        record = {"what": what, "done": done, "total": total, "seconds": now - self._began}
        try:
            write_atomically(self._path, json.dumps(record))
        except OSError:  # a full disk must not end the work that only wanted to say how far it is
            return


def read_progress(path: Path) -> Snapshot | None:
    """The last snapshot written, or None."""
    record = read_json(path)
    if record is None:
        return None
    try:
        total = record["total"]
        return Snapshot(str(record["what"]), int(record["done"]), total and int(total), float(record["seconds"]))
    except (KeyError, TypeError, ValueError):
        return None
