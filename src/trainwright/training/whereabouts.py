"""Where each rank is: a few bytes of memory that a rank writes and the launcher of its node reads.

A rank that hangs or is stopped can tell nothing any more; what it wrote last is still there. Takes a folder of this
machine; gives one record for each rank. It knows neither torch nor what the phases do.
"""

from __future__ import annotations

import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "TRAINWRIGHT_WHEREABOUTS"
#: What a rank does, in the order of a run. The middle ones are those that metrics time.
PHASES = ("start", "load", "data", "compute", "optimizer", "checkpoint", "evaluate", "leave")
_RECORD = struct.Struct("<QqqI")  # marks so far, step, forward passes since the phase began, phase


@dataclass(frozen=True)
class Place:
    """What a rank wrote last. ``count`` grows with every mark: ranks do the same, so fewer marks are behind."""

    count: int
    step: int
    phase: str
    passes: int = 0

    def __str__(self) -> str:
        micro = f", micro-batch {self.passes}" if self.passes and self.phase == "compute" else ""
        step = f"step {self.step}, " if self.step else ""
        return f"{step}{self.phase}{micro}"


class Whereabouts:
    """One rank's record. Without a file it does nothing; a mark is a store of 28 bytes and no system call."""

    def __init__(self, path: Path | None = None):
        self.step = 0  # counted from 1; before the first step, 0
        self._count = self._passes = self._phase = 0
        self._memory: mmap.mmap | bytearray = bytearray(_RECORD.size)
        if path is not None:
            temporary = path.with_suffix(".new")
            temporary.write_bytes(bytes(_RECORD.size))
            with temporary.open("r+b") as handle:
                self._memory = mmap.mmap(handle.fileno(), _RECORD.size)
            self.at("start")
            temporary.rename(path)

    @classmethod
    def of_rank(cls, rank: int) -> Whereabouts:
        """The record that the launcher asks for by the environment; one that does nothing where it does not."""
        folder = os.environ.get(FOLDER_VARIABLE)
        return cls(record_file(Path(folder), rank) if folder else None)

    def at(self, phase: str) -> None:
        """This rank begins ``phase``, one of ``PHASES``."""
        self._phase, self._passes = PHASES.index(phase), 0
        self._mark()

    def passes(self) -> None:
        """It begins another forward pass."""
        self._passes += 1
        self._mark()

    def _mark(self) -> None:
        self._count += 1
        _RECORD.pack_into(self._memory, 0, self._count, self.step, self._passes, self._phase)


def record_file(folder: Path, rank: int) -> Path:
    """Where a rank's record is."""
    return folder / f"rank-{rank}"


def stack_file(folder: Path, rank: int) -> Path:
    """Where a rank writes its Python stack when the launcher asks for it."""
    return folder / f"rank-{rank}.stack"


def read(path: Path) -> Place | None:
    """What a rank wrote last; None where there is no record."""
    try:
        count, step, passes, phase = _RECORD.unpack(path.read_bytes())
        return Place(count, step, PHASES[phase], passes)
    except (OSError, struct.error, IndexError):
        return None
