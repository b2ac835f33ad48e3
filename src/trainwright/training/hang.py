"""A hung collective: notice it in a bounded time, and say which rank did not arrive and where the others wait.

Takes what ranks wrote of their whereabouts, how they ended, and torch's flight recorder where there is a dump; gives
sentences by rank. The launcher of each node has one; it kills nothing itself. No torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.failures import tail
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.training import flight
from trainwright.training.whereabouts import FOLDER_VARIABLE, Place, read, record_file, stack_file

#: The ranks' own timeout comes first, and tells more. This is for a node whose ranks cannot: all of them stopped.
_MARGIN_SECONDS = 60.0
#: Ranks may take long here, each for itself: reading a model, writing and verifying a checkpoint.
_PATIENT = frozenset({"start", "load", "checkpoint", "leave"})
_SETTLE_SECONDS, _OTHER_NODES_SECONDS, _LOOK_SECONDS = 3.0, 10.0, 1.0
_WATCHDOG = "Watchdog caught collective operation timeout"  # NCCL's, before it aborts the process
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Seen:
    """What is known of one rank. ``state``: ``stopped`` by a signal, ``runs``, or ``ended`` by itself, which is what
    a rank does whose wait timed out. ``at`` is the ``file:line`` where it is or was; empty where nobody knows.
    """

    rank: int
    count: int
    place: str
    state: str = "runs"
    at: str = ""


@dataclass(frozen=True)
class Told:
    """The sentence on a rank that did not arrive, and where it is."""

    rank: int
    sentence: str
    at: str


def absent(seen: Sequence[Seen], ranks: Collection[int]) -> tuple[int, ...]:
    """The ranks of ``ranks`` that did not arrive. Empty when nothing tells them from the others.

    A stopped rank did not, nor did one of which nothing is known while its node should have told. Else those with the
    fewest marks, and among ranks with equally many those that did not end by themselves.
    """
    known = {one.rank for one in seen}
    surely = {one.rank for one in seen if one.state == "stopped"} | {rank for rank in ranks if rank not in known}
    if surely:
        return tuple(sorted(surely))
    fewest = min((one.count for one in seen), default=0)
    behind = [one for one in seen if one.count == fewest]
    if len(behind) == len(seen):
        behind = [one for one in seen if one.state == "runs"]
    return tuple(one.rank for one in behind) if len(behind) < len(seen) else ()


def tell(
    seen: Sequence[Seen], ranks: Collection[int], seconds: float, stuck: flight.Stuck | None = None
) -> list[Told]:
    """One sentence for each rank that did not arrive; for the lowest rank when it cannot be told which."""
    missing = absent(seen, ranks) or (stuck.missing if stuck else ())
    waiting = [one for one in seen if one.rank not in missing]
    hung = f"{stuck} hung" if stuck else "a collective hung"
    waits = f"; {_waits(waiting, stuck)} for {seconds:g} s" if waiting else ""
    if not missing:
        first = min(waiting, key=lambda one: one.rank)
        return [Told(first.rank, f"{hung}: all ranks are in one; they differ, or the network fails{waits}", first.at)]
    by_rank = {one.rank: one for one in seen}
    return [_told(rank, by_rank.get(rank), hung, waits) for rank in missing]


def _told(rank: int, one: Seen | None, hung: str, waits: str) -> Told:
    if one is None:
        return Told(rank, f"{hung}: rank {rank} did not arrive, and its node tells nothing of it{waits}", "")
    how = "; it is stopped by a signal" if one.state == "stopped" else ""
    return Told(rank, f"{hung}: rank {rank} did not arrive; it was last seen in {one.place}{how}{waits}", one.at)


def _waits(waiting: Sequence[Seen], stuck: flight.Stuck | None) -> str:
    places: dict[str, list[int]] = {}
    for one in sorted(waiting, key=lambda one: one.rank):
        at = one.at or (stuck.at if stuck and one.rank in stuck.waiting else "")
        places.setdefault(f"{one.place} ({at})" if at else one.place, []).append(one.rank)
    (place, ranks), *others = sorted(places.items(), key=lambda found: -len(found[1]))
    named = ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")
    more = f" and {sum(len(there) for _, there in others)} elsewhere" if others else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {named} waited in {place}{more}"


class HangWatch:
    """Watches the ranks of one node. ``seconds``: the timeout that the ranks themselves have for a collective."""

    def __init__(self, run: RunFolder, attempt: int, seconds: float, nodes: int = 1, node_rank: int = 0):
        self.told: list[Told] = []
        self._run, self._attempt, self._seconds = run, attempt, seconds
        self._nodes, self._node_rank = nodes, node_rank
        self._folder = tempfile.TemporaryDirectory(prefix="trainwright-", ignore_cleanup_errors=True)
        self._dumps = run.logs / str(attempt) / "flight-"
        self._counts: dict[int, int] = {}
        self._changed = self._looked = time.monotonic()

    def variables(self) -> dict[str, str]:
        """What the ranks need."""
        return {FOLDER_VARIABLE: self._folder.name}

    def recorder(self) -> dict[str, str]:
        """What NCCL's flight recorder needs, unless somebody has set it up already."""
        return flight.variables(self._dumps)

    def close(self) -> None:
        """Remove the records."""
        self._folder.cleanup()

    def look(self, codes: Mapping[int, int | None], pids: Mapping[int, int], world: int) -> bool:
        """True once a collective is known to hang; then ``told`` says why. Arguments are by global rank: exit codes
        (None while a rank runs) and process ids. Call it often; it looks once a second, or when a rank has ended.
        """
        if world == 1:
            return False
        now = time.monotonic()
        timed_out = any(self._timed_out(rank, code) for rank, code in codes.items() if code)
        if not timed_out and now - self._looked < _LOOK_SECONDS:
            return False
        self._looked = now
        places = {rank: place for rank in codes if (place := read(record_file(self._root, rank))) is not None}
        counts = {rank: place.count for rank, place in places.items()}
        if counts != self._counts:
            self._counts, self._changed = counts, now
        silent = now - self._changed > self._seconds + _MARGIN_SECONDS
        hangs = silent and bool(places) and not any(place.phase in _PATIENT for place in places.values())
        if (timed_out and places) or hangs:
            self._judge(pids, world)
        return bool(self.told)

    @property
    def _root(self) -> Path:
        return Path(self._folder.name)

    def _timed_out(self, rank: int, code: int) -> bool:
        if code == TrainExit.HUNG_COLLECTIVE:
            return True
        return code == -signal.SIGABRT and _WATCHDOG in tail(self._run.rank_log(self._attempt, rank))

    def _judge(self, pids: Mapping[int, int], world: int) -> None:
        deadline = time.monotonic() + _SETTLE_SECONDS
        while time.monotonic() < deadline and any(_state(pid) == "runs" for pid in pids.values()):
            time.sleep(0.1)  # whoever waited for the same will end now, and says where it was
        alive = {rank: pid for rank, pid in pids.items() if _state(pid) == "runs"}
        ask_for_stacks({rank: pid for rank, pid in alive.items() if read(record_file(self._root, rank))})
        ended_at = {event["rank"]: str(event.get("line") or "") for event in read_events(self._run.events)
                    if event["kind"] == "failed" and event.get("attempt") == self._attempt}  # fmt: skip
        seen = [
            Seen(rank, place.count, str(place), _state(pid), ended_at.get(rank) or _stack(self._root, rank))
            for rank, pid in pids.items()
            if (place := read(record_file(self._root, rank)) or Place(0, 0, "start"))
        ]
        if self._nodes > 1:
            seen = self._with_other_nodes(seen)
        self.told = tell(seen, range(world), self._seconds, flight.stuck(flight.read_dumps(self._dumps)))

    def _with_other_nodes(self, seen: list[Seen]) -> list[Seen]:
        """Give this node's to the others by the run's folder, and wait a moment for theirs."""
        folder = self._run.logs / str(self._attempt)
        values = {"ranks": [asdict(one) for one in seen]}
        with contextlib.suppress(OSError):
            write_atomically(folder / f"whereabouts-{self._node_rank}.json", json.dumps(values))
        files = [folder / f"whereabouts-{node}.json" for node in range(self._nodes) if node != self._node_rank]
        deadline = time.monotonic() + _OTHER_NODES_SECONDS
        while time.monotonic() < deadline and not all(path.exists() for path in files):
            time.sleep(0.2)
        found = [read_json(path) or {} for path in files]
        return seen + [Seen(**one) for values in found for one in values.get("ranks", ())]


def ask_for_stacks(pids: Mapping[int, int]) -> None:
    """Have ranks write where they are in Python. They answer in the middle of whatever they wait for."""
    for pid in pids.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR2)
    if pids:
        time.sleep(0.5)


def _stack(folder: Path, rank: int) -> str:
    """``file:line`` of the innermost frame outside of installed packages that a rank wrote."""
    frames = _FRAME.findall(tail(stack_file(folder, rank)).rpartition("Current thread")[2])
    own = [frame for frame in frames if "site-packages" not in frame[0] and "/lib/python3" not in frame[0]]
    return ":".join((own or frames)[0]) if frames else ""


def _state(pid: int) -> str:
    """``runs``, ``stopped`` or ``ended``, as the kernel says it."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "ended"
    letter = text.rpartition(")")[2].split()[0]
    return "stopped" if letter in "Tt" else "ended" if letter in "ZXx" else "runs"
