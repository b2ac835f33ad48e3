"""Logs of a run that lie in its folder, on this machine or on storage that it shares with the nodes: read or follow.

Logs may hold anything: bytes that are no text, lines without an end, progress bars. What comes out is lines that
are safe to print, each with its attempt and source, in bounded memory.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.runs.folder import RunFolder
from trainwright.targets.contract import LogLine

LONGEST_LINE = 16 * 1024  # bytes; a longer line is cut into pieces
_PIECE = 256 * 1024
_PAUSE_SECONDS = 0.25
_RANK_LOG = re.compile(r"rank-(\d+)\.log")
_STAGE_ORDER = ("prepare", "train", "finish", "report")


@dataclass(frozen=True)
class Source:
    """One log file. ``rank`` is None for the log of a stage."""

    attempt: int
    name: str
    rank: int | None
    path: Path


def sources(run: RunFolder, rank: int | None = None) -> list[Source]:
    """Log files in the order in which they are read: by attempt, then stages with the ranks after ``train``."""
    found: list[tuple[tuple[int, int, int, str], Source]] = []
    for folder in _folders(run.logs):
        attempt = int(folder.name)
        for name in _names(folder):
            match = _RANK_LOG.fullmatch(name)
            number = int(match[1]) if match else None
            if rank is not None and number != rank:
                continue
            stage = "train" if match else name.removesuffix(".log")
            place = _STAGE_ORDER.index(stage) if stage in _STAGE_ORDER else len(_STAGE_ORDER)
            title = f"rank {number}" if match else stage
            key = (attempt, place, -1 if number is None else number, name)
            found.append((key, Source(attempt, title, number, folder / name)))
    return [source for _, source in sorted(found, key=lambda entry: entry[0])]


def read_logs(run: RunFolder, rank: int | None = None) -> Iterator[LogLine]:
    """Every line there is now. InputError, at once, for a rank that has no log."""
    known = {source.rank for source in sources(run) if source.rank is not None}
    if rank is not None and rank not in known:
        have = f"there are ranks {', '.join(map(str, sorted(known)))}" if known else "training has not begun"
        raise InputError([Problem(run.run_id, field="--rank", what=f"there is no log of rank {rank}", instead=have)])
    return _lines(sources(run, rank))


def _lines(found: list[Source]) -> Iterator[LogLine]:
    for source in found:
        tail = Tail(source.path)
        while lines := tail.read():
            yield from (LogLine(source.attempt, source.name, line) for line in lines)
        yield from (LogLine(source.attempt, source.name, line) for line in tail.rest())


def follow_logs(
    run: RunFolder, rank: int | None, done: Callable[[], bool], pause: Callable[[float], object] = time.sleep
) -> Iterator[LogLine]:
    """Every line there is and will be, through restarts, until ``done`` and everything is told."""
    tails: dict[Path, Tail] = {}
    while True:
        over = done()  # asked before reading, so that the last lines are not missed
        quiet = True
        for source in sources(run, rank):
            tail = tails.setdefault(source.path, Tail(source.path))
            while lines := tail.read():
                quiet = False
                yield from (LogLine(source.attempt, source.name, line) for line in lines)
            if over:
                yield from (LogLine(source.attempt, source.name, line) for line in tail.rest())
        if over:
            return
        if quiet:
            pause(_PAUSE_SECONDS)


class Tail:
    """Reads a growing file from its beginning, line by line. A file that shrank is read anew."""

    def __init__(self, path: Path):
        self._path = path
        self._offset = 0
        self._open_line = b""

    def read(self) -> list[str]:
        """The whole lines of the next piece; empty when there is nothing new."""
        try:
            with self._path.open("rb") as handle:
                if os.fstat(handle.fileno()).st_size < self._offset:
                    self._offset, self._open_line = 0, b""
                handle.seek(self._offset)
                piece = handle.read(_PIECE)
        except OSError:
            return []
        self._offset += len(piece)
        *whole, self._open_line = (self._open_line + piece).split(b"\n")
        lines = [text for line in whole for text in _cut(line)]
        while len(self._open_line) > LONGEST_LINE:
            lines.append(printable(self._open_line[:LONGEST_LINE]))
            self._open_line = self._open_line[LONGEST_LINE:]
        if piece and not lines:
            return self.read()  # only the middle of a line so far; the next piece may end it
        return lines

    def rest(self) -> list[str]:
        """What stands after the last line end, once nothing more will come."""
        left, self._open_line = self._open_line, b""
        return _cut(left) if left else []


def printable(line: bytes) -> str:
    """Text that cannot disturb a terminal. Of a progress bar that rewrites its line, only the last state is kept."""
    parts = [part for part in line.split(b"\r") if part]
    text = (parts[-1] if parts else b"").decode(errors="replace")
    return "".join(c if c.isprintable() or c == "\t" else _written_out(c) for c in text)


def _written_out(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def _cut(line: bytes) -> list[str]:
    return [printable(line[start : start + LONGEST_LINE]) for start in range(0, max(len(line), 1), LONGEST_LINE)]


def _folders(logs: Path) -> list[Path]:
    try:
        found = [path for path in logs.iterdir() if path.name.isascii() and path.name.isdigit() and path.is_dir()]
    except OSError:
        return []
    return sorted(found, key=lambda path: int(path.name))


def _names(folder: Path) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if name.endswith(".log"))
    except OSError:
        return []
