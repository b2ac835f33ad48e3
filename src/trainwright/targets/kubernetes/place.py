"""Where the client's folder of a run on Kubernetes is. Paths only; no cluster is asked.

The run's own folder lies on storage that the pods share. Where this machine has that storage too, at the same path,
and the pods run as this user, it is the client's folder as well.
"""

from __future__ import annotations

import os
from pathlib import Path

from trainwright.runs.folder import default_runs
from trainwright.targets.place import asked_for


def runs_folder(bundle: Path, run_id: str, run_dir: str | None, runs: Path | None, user: int) -> Path:
    """Around the bundle, as asked, the pods' storage when it is here, or the default.

    ``user`` is whom the pods run as: a folder that another one has made they could not write to.
    """
    if (asked := asked_for(bundle, run_id, runs)) is not None:
        return asked
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
