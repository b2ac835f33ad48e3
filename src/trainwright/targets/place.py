"""Which folder a run has on this machine, and how far that folder has come: the same question for every target.

Takes bundles, folders and events; gives paths and numbers. It reads names only, and asks no scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from trainwright.runs import identity
from trainwright.runs.folder import RunFolder


def asked_for(bundle: Path, run_id: str, runs: Path | None) -> Path | None:
    """The folder of runs that a user means: ``runs``, else the one in which the bundle is a run's own. None for
    neither.
    """
    if runs is not None:
        return runs.absolute()
    inside = bundle.absolute()
    return inside.parent.parent if inside.name == "bundle" and inside.parent.name == run_id else None


def run_of(place: Path, run_id: str, *, fresh: bool) -> RunFolder:
    """The newest run of this content in a folder of runs, or with ``fresh`` the next free one."""
    known = names(place)
    name = identity.fresh(run_id, known) if fresh else identity.newest(run_id, known)
    return RunFolder(place / (name or run_id))


def names(place: Path) -> set[str]:
    """Ids of the runs in a folder; whatever else lies there, such as a copy ``x.bak``, is none of ours."""
    if not place.is_dir():
        return set()
    return {path.name for path in place.iterdir() if identity.is_run_id(path.name) and path.is_dir()}


def last_attempt(run: RunFolder, events: Iterable[Mapping[str, Any]] = ()) -> int:
    """The highest attempt that left a trace in logs or ``events``; 0 for none."""
    logs = (path.name for path in run.logs.iterdir()) if run.logs.is_dir() else ()
    logged = (int(name) for name in logs if name.isascii() and name.isdigit())
    return max([0, *logged, *(int(e["attempt"]) for e in events if type(e.get("attempt")) is int)])
