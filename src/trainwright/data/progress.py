"""Adds up what several threads have done and tells it to whoever shows it. No terminal here."""

from __future__ import annotations

import threading

from trainwright.runs.progress import Progress, silent

__all__ = ["Teller", "silent"]

_UNIT = 1000  # bytes are told as kB


class Teller:
    """Tells a Progress how far a stage is, in kB of input. Safe to use from several threads."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._lock = threading.Lock()
        self.begin("", 0)

    def begin(self, stage: str, total: int) -> None:
        """Start a stage of ``total`` bytes."""
        self._stage, self._total, self._done = stage, total, 0

    def advance(self, count: int) -> None:
        """Add bytes that are done."""
        with self._lock:
            self._done += count
            done = min(self._done, self._total)
        self._progress(f"{self._stage} (kB)", done // _UNIT, self._total // _UNIT)
