"""The first error of a failed attempt: which rank, which exception, which file and line.

Reads what ranks reported as ``failed`` events and, for processes that could not or do not report (own scripts,
crashes), the ends of their logs. When one rank fails, the others soon fail because of it; such echoes are told
apart by their text. No torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.runs.folder import RunFolder

_TAIL_BYTES = 256 * 1024  # a traceback stands at the end of a log; the log may be gigabytes long
_LONGEST = 400
_TRACEBACK = "Traceback (most recent call last):"
_DIRECT_CAUSE = "The above exception was the direct cause"
_IN_HANDLING = "During handling of the above exception"
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_EXCEPTION = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?::\s*(?P<text>.*))?$")
_CRASH = re.compile(
    r"^(?:Fatal Python error: .*|.*\b(?:\w*Error|error|fatal|out of memory|No space left)\b.*)$", re.I
)
_ECHO = re.compile(
    r"Connection (?:closed|reset) by peer|SignalException|ChildFailedError|KeyboardInterrupt|Broken pipe|"
    r"Socket Timeout|remote process exited|DistNetworkError|DistStoreError|connectFullMesh|watchdog.*terminat",
    re.IGNORECASE,
)
_LIBRARY = re.compile(r"/site-packages/|/dist-packages/|/lib/python\d[\d.]*/|^<")
_RANK_LOG = re.compile(r"rank-(\d+)\.log")


@dataclass(frozen=True)
class Failure:
    """One error. ``where`` is ``file:line`` or empty; ``rank`` is None when a stage's own log told it."""

    text: str
    where: str = ""
    rank: int | None = None
    log: str = ""
    echo: bool = False


def first_failure(
    run: RunFolder, attempt: int, stage: str | None, events: Iterable[dict[str, Any]]
) -> Failure | None:
    """The error that started the end of an attempt, or None when nothing was said."""
    found = failures_of_ranks(run, attempt, events) if stage == "train" else []
    for failure in found:
        if not failure.echo:
            return failure
    if stage is not None:
        log = run.stage_log(attempt, stage)
        if (error := first_error(tail(log))) is not None and not error.echo:
            return Failure(error.text, error.where, None, str(log))
    return found[0] if found else None


def failures_of_ranks(run: RunFolder, attempt: int, events: Iterable[dict[str, Any]]) -> list[Failure]:
    """The exception of every rank that ended by one, echoes included: first those reported, then those logged."""
    found = _reported(run, attempt, events)
    return found + _logged(run, attempt, known={failure.rank for failure in found})


def first_error(text: str) -> Failure | None:
    """The error that ended a program, from the end of its log: an exception, else a crash, else the last line.

    Of exceptions that followed each other "during handling", the first is the cause; of an exception raised
    ``from`` another, the outer one says it in the words of its author.
    """
    lines = text.splitlines()
    chains = _chains(lines)
    for failure in reversed(chains):
        if not failure.echo:
            return failure
    if chains:
        return chains[-1]
    for line in lines:
        if _CRASH.match(line) and not _ECHO.search(line):
            return Failure(_short(line))
    last = next((line for line in reversed(lines) if line.strip()), None)
    return None if last is None else Failure(_short(last), echo=bool(_ECHO.search(last)))


def _reported(run: RunFolder, attempt: int, events: Iterable[dict[str, Any]]) -> list[Failure]:
    """What ranks said of themselves, first by their clocks; before them what the launcher found to be the cause."""
    found = []
    for event in events:
        rank = event.get("rank")
        if event.get("kind") == "failed" and event.get("attempt") == attempt and type(rank) is int:
            text, where = str(event.get("exception") or ""), str(event.get("line") or "")
            if text:
                log = str(run.rank_log(attempt, rank))
                cause = event.get("cause") is True
                found.append((not cause, Failure(_short(text), where, rank, log, bool(_ECHO.search(text)))))
    return [failure for _, failure in sorted(found, key=lambda entry: entry[0])]


def _logged(run: RunFolder, attempt: int, known: set[int | None]) -> list[Failure]:
    """What stands at the ends of the ranks' logs; logs that fell silent first come first."""
    found: list[tuple[float, int, Failure]] = []
    folder = run.logs / str(attempt)
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    for name in names:
        match = _RANK_LOG.fullmatch(name)
        if match is None or int(match[1]) in known:
            continue
        path = folder / name
        chains = _chains(tail(path).splitlines())
        error = next((f for f in reversed(chains) if not f.echo), chains[-1] if chains else None)
        if error is not None:
            rank = int(match[1])
            found.append((_silent_since(path), rank, Failure(error.text, error.where, rank, str(path), error.echo)))
    return [failure for _, _, failure in sorted(found, key=lambda entry: entry[:2])]


def _silent_since(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("inf")


def _chains(lines: list[str]) -> list[Failure]:
    """One failure for each group of chained tracebacks, in order."""
    found: list[Failure] = []
    link = ""
    for index, line in enumerate(lines):
        if _IN_HANDLING in line:
            link = _IN_HANDLING
        elif _DIRECT_CAUSE in line:
            link = _DIRECT_CAUSE
        elif line.rstrip().endswith(_TRACEBACK):
            prefix = line[: line.index(_TRACEBACK)]
            failure = _traceback(lines, index + 1, prefix)
            if failure is None:
                continue
            if link == _IN_HANDLING and found:
                pass
            elif link == _DIRECT_CAUSE and found:
                found[-1] = failure
            else:
                found.append(failure)
            link = ""
    return found


def _traceback(lines: list[str], start: int, prefix: str) -> Failure | None:
    """The exception of one traceback and the innermost frame outside of libraries. ``prefix`` as in ``[rank0]: ``."""
    own = innermost = ""
    for line in lines[start:]:
        line = line.removeprefix(prefix)
        frame = _FRAME.match(line)
        if frame:
            innermost = f"{frame['file']}:{frame['line']}"
            if not _LIBRARY.search(frame["file"]):
                own = innermost
        elif line and not line[0].isspace() and (match := _EXCEPTION.match(line)):
            return Failure(_short(line), own or innermost, echo=bool(_ECHO.search(match[0])))
    return None


def _short(line: str) -> str:
    text = "".join(c if c.isprintable() else " " for c in line).strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def tail(path: Path) -> str:
    """The end of a log, as text; empty when it cannot be read."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - _TAIL_BYTES))
            return handle.read(_TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ""
