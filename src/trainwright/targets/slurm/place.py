"""Where a run on Slurm is kept, and how far its folder has come. Paths only; no command is run.

The run's folder lies on storage that all nodes see; with a login node the client has a folder of its own beside it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.runs.folder import RunFolder, default_runs
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.targets.slurm.transport import over_rest


def check_storage(spec: RunSpec, login: str | None) -> None:
    """Refuse a storage that nodes cannot share. Raises InputError."""
    what = ""
    if spec.storage is not None and (is_remote(spec.storage) or not os.path.isabs(spec.storage)):
        what = f"is {spec.storage}, but Slurm's nodes meet in a folder"
    elif spec.storage is None and login is not None and not over_rest(login):
        what = f"is missing: runs cannot be kept on this machine when {login} submits them"
    if what:
        instead = "name a folder that all nodes and the login node see"
        raise InputError([Problem("", field="storage", what=what, instead=instead)])


def runs_folder(bundle: Path, run_id: str, spec: RunSpec, runs: Path | None, login: str | None) -> Path:
    """Where the client's folder of a run is: around the bundle, as asked, in the storage, or the default."""
    inside = bundle.absolute()
    if runs is None and inside.name == "bundle" and inside.parent.name == run_id:
        return inside.parent.parent
    if runs is not None:
        return runs.absolute()
    elsewhere = login is not None and not over_rest(login)
    return default_runs() if elsewhere or spec.storage is None else Path(spec.storage)


def names(place: Path) -> set[str]:
    """Folders in a folder; none when there is no such folder."""
    return {path.name for path in place.iterdir() if path.is_dir()} if place.is_dir() else set()


def last_attempt(run: RunFolder, events: Sequence[Mapping[str, Any]]) -> int:
    """The highest attempt that left a trace; 0 for none."""
    names = (path.name for path in run.logs.iterdir()) if run.logs.is_dir() else ()
    logged = (int(name) for name in names if name.isascii() and name.isdigit())
    return max([0, *logged, *(int(e["attempt"]) for e in events if type(e.get("attempt")) is int)])
