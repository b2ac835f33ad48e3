"""Read the flight recorder's dumps: which collective hangs, who waits in it, and who never called it.

torch writes one pickle for each rank when a collective times out (on NCCL; gloo's recorder has the same form). Takes
such files; gives a plain answer. A dump holds plain values only, so nothing that a pickle names is ever imported.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Of a dump; a ring of 2000 entries with stacks is a few megabytes.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class Stuck:
    """The first collective that did not complete. ``waiting`` called it, ``missing`` did not, by their dumps;
    ``unheard`` are ranks of its group without a dump. ``at`` is ``file:line`` of a waiting rank, where it was kept.
    """

    operation: str
    sequence: int
    group: str
    waiting: tuple[int, ...]
    missing: tuple[int, ...]
    unheard: tuple[int, ...]
    at: str = ""

    def __str__(self) -> str:
        group = f" of group {self.group}" if self.group else ""
        return f"{self.operation} number {self.sequence}{group}"


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"names {module}.{name}; a dump holds plain values only")


def variables(prefix: Path) -> dict[str, str]:
    """What makes NCCL's process group write its recorder to ``<prefix><rank>`` when a collective hangs. That it keeps
    one, of 2000 entries, is the default of every torch that the project runs on.
    """
    return {"TORCH_FR_DUMP_TEMP_FILE": str(prefix), "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


def read_dumps(prefix: Path) -> dict[int, dict[str, Any]]:
    """Dumps by global rank. A file that is not whole, or no dump, counts as none."""
    found = {}
    for path in sorted(prefix.parent.glob(f"{prefix.name}*")):
        number = path.name[len(prefix.name) :]
        if not (number.isascii() and number.isdigit()):
            continue
        try:
            with path.open("rb") as handle:
                dump = _Plain(io.BytesIO(handle.read(_MOST_BYTES))).load()
        except Exception:  # noqa: BLE001 - a broken pickle raises nearly anything
            continue
        if isinstance(dump, dict) and isinstance(dump.get("entries"), list):
            found[int(number)] = dump
    return found


def stuck(dumps: Mapping[int, Mapping[str, Any]]) -> Stuck | None:
    """What hangs, from the dumps of some ranks; None when every recorded collective is complete.

    Collectives of one group are numbered alike on its ranks. In the group whose oldest incomplete collective began
    first, a rank that waits has it as ``scheduled`` or ``started``; one that never called it has got less far.
    """
    open_entries = [
        (int(entry.get("time_created_ns") or 0), rank, entry)
        for rank, dump in dumps.items()
        for entry in dump["entries"]
        if isinstance(entry, Mapping) and not entry.get("is_p2p") and entry.get("state") != "completed"
    ]
    if not open_entries:
        return None
    _, first, entry = min(open_entries, key=lambda found: found[:2])
    name, number = _group(entry), int(entry["collective_seq_id"])
    members = _members(dumps[first], name) or tuple(sorted(dumps))
    waiting: list[int] = []
    missing: list[int] = []
    for rank in members:
        if rank in dumps:
            numbers = [int(e["collective_seq_id"]) for e in dumps[rank]["entries"] if _is_of(e, name)]
            (waiting if max(numbers, default=0) >= number else missing).append(rank)
    frames = [frame for frame in entry.get("frames") or () if isinstance(frame, Mapping)]
    own = [frame for frame in frames if "site-packages" not in str(frame.get("filename"))] or frames
    return Stuck(
        str(entry.get("profiling_name", "")).partition(":")[2] or str(entry.get("profiling_name", "collective")),
        number,
        _described(entry),
        tuple(waiting),
        tuple(missing),
        tuple(rank for rank in members if rank not in dumps),
        f"{own[0].get('filename')}:{own[0].get('line')}" if own else "",
    )


def _group(entry: Mapping[str, Any]) -> str:
    name = entry.get("process_group")
    return str(name[0]) if isinstance(name, list | tuple) and name else str(name)


def _described(entry: Mapping[str, Any]) -> str:
    name = entry.get("process_group")
    said = str(name[1]) if isinstance(name, list | tuple) and len(name) > 1 else ""
    return "" if said in ("default_pg", "undefined") else said or _group(entry)


def _is_of(entry: Any, name: str) -> bool:
    return isinstance(entry, Mapping) and not entry.get("is_p2p") and _group(entry) == name


def _members(dump: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Global ranks of a group, as ``pg_config`` lists them (a string such as ``[0, 1]``)."""
    config = (dump.get("pg_config") or {}).get(name) or {}
    listed = str(config.get("ranks") or "").strip("[] ")
    numbers = [part.strip() for part in listed.split(",")]
    return tuple(int(part) for part in numbers if part.isdigit())
