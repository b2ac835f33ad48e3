"""Which attempt a pod belongs to, and how its gang is doing: told by small files in the run's folder.

Pods of a gang are replaced one by one and at different times, yet all must join the same attempt, and none may go on
when another has ended. Every node leaves ``logs/<attempt>/<stage>-<node>.started`` and ``….exit``; nothing else is
shared. No torch, no cluster.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright.runs.folder import RunFolder, write_atomically

_FILE = re.compile(r"(?P<stage>[a-z]+)-(?P<node>\d+)\.(?P<kind>started|exit)")


@dataclass(frozen=True)
class Mark:
    """One of the files: who left it, and for an end its exit code and the digest of what it ran."""

    attempt: int
    node: int
    ended: bool
    code: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Member:
    """One node of a stage. ``digest`` names the spec and plan that it runs."""

    run: RunFolder
    stage: str
    node: int
    digest: str

    def marks(self) -> list[Mark]:
        """Everything that nodes of this stage have left, in order of attempts."""
        return sorted(_marks(self.run.logs, self.stage), key=lambda mark: (mark.attempt, mark.node, mark.ended))

    def start(self) -> int:
        """The attempt to join, marked as started by this node.

        It is the first that this node has not been in, and in which no node has ended. A node that was lost without
        a word has been in its attempt, so its successor opens the next one; the others follow (see ``abandoned``).
        """
        marks = self.marks()
        gone = {mark.attempt for mark in marks if mark.ended or mark.node == self.node}
        latest = max((mark.attempt for mark in marks), default=1)
        attempt = next(number for number in range(latest, latest + 2) if number not in gone)
        self._write(attempt, "started", "")
        return attempt

    def end(self, attempt: int, code: int) -> None:
        """Tell the other nodes how this one ended."""
        self._write(attempt, "exit", f"{code} {self.digest}\n")

    def complete(self) -> bool:
        """Whether a node has finished this very spec: ranks leave together, so what is left has nothing to join."""
        return any(mark.ended and mark.code == 0 and mark.digest == self.digest for mark in self.marks())

    def abandoned(self, attempt: int) -> bool:
        """Whether another node has failed in this attempt, or has gone on to a later one."""
        others = [mark for mark in self.marks() if mark.node != self.node]
        return any(
            mark.attempt > attempt or (mark.attempt == attempt and mark.ended and mark.code != 0) for mark in others
        )

    def _write(self, attempt: int, kind: str, text: str) -> None:
        folder = self.run.logs / str(attempt)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / f"{self.stage}-{self.node}.{kind}", text)


def _marks(logs: Path, stage: str) -> Iterator[Mark]:
    for folder in _names(logs):
        if not (folder.isascii() and folder.isdigit()):
            continue
        for name in _names(logs / folder):
            match = _FILE.fullmatch(name)
            if match is None or match["stage"] != stage:
                continue
            node, ended = int(match["node"]), match["kind"] == "exit"
            code, digest = _ending(logs / folder / name) if ended else (0, "")
            yield Mark(int(folder), node, ended, code, digest)


def _ending(path: Path) -> tuple[int, str]:
    try:
        code, _, digest = path.read_text().strip().partition(" ")
        return int(code), digest
    except (OSError, ValueError):
        return 1, ""


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
