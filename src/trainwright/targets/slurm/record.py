"""``job.json`` of a run on Slurm: which jobs were submitted for it, where, and from which folder.

Only who submits writes it, under ``run.lock``. What happens afterwards is told by Slurm and by the run's events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainwright.runs.events import SUPERVISOR
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.targets.slurm.transport import over_rest

MAIN = "train"  # the stage whose job gives the run its reference


@dataclass(frozen=True)
class Submission:
    """One chain of jobs. ``at`` is seconds since the epoch, ``attempt`` the first attempt of it."""

    at: float
    jobs: dict[str, str]
    attempt: int = 1
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class JobRecord:
    """Where a run was sent. ``folder`` is the run's folder as the nodes see it, ``cwd`` where it was submitted."""

    cluster: str
    login: str | None
    folder: str
    cwd: str
    submissions: tuple[Submission, ...] = ()

    @property
    def mirrored(self) -> bool:
        """True when the run's folder is only reached through the login node, so that the client keeps a copy."""
        return self.login is not None and not over_rest(self.login)

    @property
    def latest(self) -> Submission:
        """The chain that counts."""
        return self.submissions[-1]

    @property
    def main(self) -> str:
        """Id of the training job as it was submitted."""
        return self.latest.jobs[MAIN]

    def with_submission(self, submission: Submission) -> JobRecord:
        """With one more chain."""
        return replace(self, submissions=(*self.submissions, submission))

    def to_dict(self) -> dict[str, Any]:
        """Content of ``job.json``."""
        return {"v": 1, "target": "slurm", **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobRecord | None:
        """Read what ``to_dict`` wrote; None for anything else."""
        try:
            submissions = tuple(
                Submission(
                    float(s["at"]),
                    {str(k): str(v) for k, v in s["jobs"].items()},
                    int(s["attempt"]),
                    tuple(s["exclude"]),
                )
                for s in values["submissions"]
            )
            login = values["login"]
            found = cls(
                str(values["cluster"]), None if login is None else str(login), str(values["folder"]),
                str(values["cwd"]), submissions,
            )  # fmt: skip
            whole = all(MAIN in s.jobs and all(map(_is_id, s.jobs.values())) for s in submissions)
            return found if submissions and whole else None
        except (KeyError, TypeError, ValueError, AttributeError):
            return None


def _is_id(text: object) -> bool:
    return isinstance(text, str) and text.isascii() and text.isdigit()


def read_record(run: RunFolder) -> JobRecord | None:
    """The record, or None when there is none that can be read."""
    values = read_json(run.job_file)
    return JobRecord.from_dict(values) if values is not None else None


def write_record(run: RunFolder, record: JobRecord) -> None:
    """Replace the record. Raises OSError when the disk is full or read-only."""
    write_atomically(run.job_file, json.dumps(record.to_dict(), indent=2) + "\n")


def current_jobs(record: JobRecord, events: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Stage → job id: those submitted, and the successors that a job has put in its place."""
    jobs = dict(record.latest.jobs)
    for event in events:
        replaced = event.get("rank") == SUPERVISOR and event.get("kind") == "restarted" and _is_id(event.get("job"))
        if replaced and event.get("t", 0.0) >= record.latest.at and event.get("stage") in jobs:
            jobs[str(event["stage"])] = str(event["job"])
    return jobs
