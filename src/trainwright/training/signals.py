"""Requests to stop: a flag that the trainer reads between steps, set by every signal that the launcher passes on.

Takes over the process's signal handlers; gives one truth value. It knows nothing of training.
"""

from __future__ import annotations

import ctypes
import signal
from types import FrameType

#: ``launch`` forwards exactly these. HUP and QUIT come from a terminal that closes: that, too, must not lose work.
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1)
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
