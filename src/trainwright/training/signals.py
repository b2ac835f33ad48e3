"""Requests to stop: SIGTERM, SIGUSR1 and SIGINT set a flag that the trainer reads between steps."""

from __future__ import annotations

import ctypes
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
_PR_SET_PDEATHSIG = 1


class StopRequest:
    """Becomes true once any of the signals arrived; later ones change nothing."""

    def __init__(self) -> None:
        self.name: str | None = None

    def install(self) -> None:
        """Take over the signals, and ask the kernel for SIGTERM should the launcher die without saying so."""
        for number in STOP_SIGNALS:
            signal.signal(number, self._arrived)
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "prctl"):
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    def __bool__(self) -> bool:
        return self.name is not None

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.name = self.name or signal.Signals(number).name
