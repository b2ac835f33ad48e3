"""Progress of something long, told to whoever shows it. Plain values; no terminal here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

_TELL_SECONDS = 0.1


@dataclass(frozen=True)
class Progress:
    """How far a stage is. ``done`` and ``total`` are bytes of input."""

    stage: str
    """``fetch`` (copy from a store), ``hash`` or ``tokenise``."""
    done: int
    total: int
    documents: int
    tokens: int
    seconds: float

    @property
    def eta_seconds(self) -> float | None:
        """Seconds left at the speed so far; None until there is a speed."""
        if not self.done or not self.seconds:
            return None
        return self.seconds * max(self.total - self.done, 0) / self.done


#: Called about ten times a second.
OnProgress: TypeAlias = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Show nothing."""


class Teller:
    """Adds up what was done and tells it, not too often. Safe to use from several threads."""

    def __init__(self, on_progress: OnProgress):
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self.begin("", 0)

    def begin(self, stage: str, total: int) -> None:
        """Start a stage."""
        self._stage, self._total = stage, total
        self._done = self._documents = self._tokens = 0
        self._started = time.monotonic()
        self._told = self._started

    def advance(self, done: int, documents: int = 0, tokens: int = 0) -> None:
        """Add to what was done; tells at most ten times a second, and when all is done."""
        with self._lock:
            self._done += done
            self._documents += documents
            self._tokens += tokens
            now = time.monotonic()
            if now - self._told < _TELL_SECONDS and self._done < self._total:
                return
            self._told = now
            told = Progress(self._stage, self._done, self._total, self._documents, self._tokens, now - self._started)
        self._on_progress(told)
