"""Where a run on Slurm is kept. Paths only; no command is run.

The run's folder lies on storage that all nodes see; with a login node the client has a folder of its own beside it.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.runs.folder import default_runs
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.targets.place import asked_for
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
    if (asked := asked_for(bundle, run_id, runs)) is not None:
        return asked
    elsewhere = login is not None and not over_rest(login)
    return default_runs() if elsewhere or spec.storage is None else Path(spec.storage)
