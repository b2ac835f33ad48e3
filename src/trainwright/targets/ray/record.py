"""``job.json`` of a run on Ray: where it was sent, its jobs there, and how it ended. Values and one file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.runs.state import JobState, Reason


@dataclass(frozen=True)
class JobRecord:
    """``jobs``: submission ids, oldest first. ``run_dir`` is the run's folder as the nodes see it.

    ``first_attempt``: number of the first attempt of the last job.
    """

    address: str
    jobs: tuple[str, ...]
    run_dir: str
    first_attempt: int = 1
    final: JobState | None = None

    @property
    def job(self) -> str:
        """The job that counts."""
        return self.jobs[-1]


def read_record(run: RunFolder) -> JobRecord | None:
    """The record, or None when there is none that can be read."""
    values = read_json(run.job_file)
    try:
        if values is None or not values["jobs"]:
            return None
        return JobRecord(
            str(values["address"]), tuple(map(str, values["jobs"])), str(values["run_dir"]),
            int(values["first_attempt"]), _state(values.get("final")),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def write_record(run: RunFolder, record: JobRecord) -> None:
    """Replace the record. Raises OSError when the disk is full or read-only."""
    values = {"v": 1, "target": "ray", **asdict(record), "final": record.final.to_dict() if record.final else None}
    write_atomically(run.job_file, json.dumps(values, indent=2) + "\n")


def _state(values: dict[str, Any] | None) -> JobState | None:
    if values is None:
        return None
    told = values.get("reason")
    reason = Reason(**{("class_" if key == "class" else key): value for key, value in told.items()}) if told else None
    return JobState(**{**values, "reason": reason})
