"""Where the client's folder of a run on Kubernetes is, and what it says. Paths and files; no cluster is asked.

The run's own folder lies on storage that the pods share. Where this machine has that storage too, at the same path,
and the pods run as this user, it is the client's folder as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, default_runs


def runs_folder(bundle: Path, run_id: str, run_dir: str | None, runs: Path | None, user: int) -> Path:
    """Around the bundle, as asked, the pods' storage when it is here, or the default.

    ``user`` is whom the pods run as: a folder that another one has made they could not write to.
    """
    inside = bundle.absolute()
    if runs is None and inside.name == "bundle" and inside.parent.name == run_id:
        return inside.parent.parent
    if runs is not None:
        return runs.absolute()
    shared = Path(run_dir).parent if run_dir else None
    if (
        shared is not None
        and os.geteuid() == user
        and shared.is_absolute()
        and shared.is_dir()
        and os.access(shared, os.W_OK)
    ):
        return shared
    return default_runs()


def names(place: Path) -> set[str]:
    """Folders in a folder; none when there is no such folder."""
    return {path.name for path in place.iterdir() if path.is_dir()} if place.is_dir() else set()


def last_attempt(run: RunFolder) -> int:
    """The highest attempt that left a trace; 0 for none."""
    logged = [int(name) for name in names(run.logs) if name.isascii() and name.isdigit()]
    told = [int(e["attempt"]) for e in read_events(run.events) if type(e.get("attempt")) is int]
    return max([0, *logged, *told])
