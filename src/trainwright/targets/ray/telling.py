"""What a Ray job's log tells of its run: when stages wait, begin and end, and what ranks print.

Ray forwards what workers print to the driver, whose output is the job's log, each line behind a name in brackets.
Written by ``driver``, read by the client, which may share no storage with the nodes. Pure: text in, values out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

WAITS = "trainwright: waits "  # for resources
BEGINS = "trainwright: begins "
ENDED = "trainwright: ended "  # and the words that a pod leaves, as JSON
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FROM = re.compile(r"^\([\w.:~<>-]+(?: [^()]*)?pid=\d+(?:, ip=[^()]+)?\) ?")
_RANK = re.compile(r"^\[rank (\d+)\] ?")


@dataclass(frozen=True)
class Line:
    """One line of the log. ``rank`` is None for what no rank printed."""

    attempt: int
    rank: int | None
    text: str


@dataclass
class Told:
    """What a job has told. ``ends``: last words of nodes, in order; ``waits`` is False once the stage has begun."""

    stage: str | None = None
    waits: bool = False
    attempt: int = 0
    ends: list[dict[str, Any]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @property
    def failure(self) -> dict[str, Any] | None:
        """The last words that say why the last attempt failed: of the user before the machine."""
        latest = max((int(end.get("attempt") or 0) for end in self.ends), default=0)
        own = [
            end for end in self.ends
            if end.get("class") in ("user", "infrastructure") and int(end.get("attempt") or 0) == latest
        ]  # fmt: skip
        return min(own, key=lambda end: (end.get("class") != "user", end.get("rank") is None), default=None)

    @property
    def saved(self) -> int | None:
        """The newest checkpoint that nodes have told of."""
        return max((end["saved"] for end in self.ends if type(end.get("saved")) is int), default=None)


def read(text: str, first_attempt: int = 1) -> Told:
    """Read a log from its beginning. ``first_attempt`` is the number of the first attempt of this job."""
    told = Told(attempt=first_attempt)
    for line in plain(text.splitlines()):
        if line.startswith(WAITS):
            told.stage, told.waits = line.removeprefix(WAITS).strip(), True
        elif line.startswith(BEGINS):
            _begin(told, line.removeprefix(BEGINS).strip(), first_attempt)
        elif line.startswith(ENDED):
            with_words(told, line.removeprefix(ENDED))
        else:
            rank = _RANK.match(line)
            text_ = line[rank.end() :] if rank else line
            told.lines.append(Line(told.attempt, int(rank[1]) if rank else None, text_))
    return told


def plain(lines: Iterable[str]) -> Iterator[str]:
    """Lines as they were printed: without colours and without the name that Ray puts before them."""
    for line in lines:
        bare = _COLOUR.sub("", line)
        yield _FROM.sub("", bare)


def with_words(told: Told, text: str) -> None:
    """Add a node's last words; what is no JSON object is left out."""
    try:
        words = json.loads(text)
    except ValueError:
        return
    if isinstance(words, dict) and words.get("v") == 1:
        told.ends.append(words)


def _begin(told: Told, stage: str, first: int) -> None:
    """A stage begins, for the first time or again: attempts are counted by the ends before."""
    ended = [int(end.get("attempt") or 0) for end in told.ends if end.get("stage") == stage]
    told.attempt = max([first, *(number + 1 for number in ended)])
    told.stage, told.waits = stage, False
