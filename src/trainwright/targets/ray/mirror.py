"""What a job's log tells, kept in the client's folder where that is not the run's own: Ray forgets it with its head.

Takes what was read of the whole log and appends what is new. It must not judge anything.
"""

from __future__ import annotations

import json
from pathlib import Path

from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.targets.ray.telling import Told

STATE = "mirror.json"  # how many lines of each job were written
_OTHER = "driver"


def write(run: RunFolder, told: Told, job: str) -> None:
    """Append lines that were not written yet: a rank's to its log, the others to that of the driver."""
    state = read_json(run.root / STATE) or {"v": 1}
    done: dict[str, int] = state.setdefault("lines", {})
    fresh = told.lines[done.get(job, 0) :]
    if not fresh:
        return
    parts: dict[Path, list[str]] = {}
    for line in fresh:
        log = run.stage_log(line.attempt, _OTHER) if line.rank is None else run.rank_log(line.attempt, line.rank)
        parts.setdefault(log, []).append(line.text)
    for path, texts in parts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as handle:
            handle.write("".join(f"{text}\n" for text in texts))
    done[job] = len(told.lines)
    write_atomically(run.root / STATE, json.dumps(state) + "\n")
