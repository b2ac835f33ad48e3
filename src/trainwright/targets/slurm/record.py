"""``job.json`` of a run on Slurm: which jobs were submitted for it, where, and from which folder.

Only who submits writes it, under ``run.lock``. What happens afterwards is told by Slurm and by the run's events.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainwright.runs.events import SUPERVISOR, read_events
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.targets.slurm.transport import over_rest

STAGES = ("prepare", "train", "finish")  # the jobs of a run, in order
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
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            return None


def sound_events(run: RunFolder) -> list[dict[str, Any]]:
    """Events of a run in order of time, without those whose fields are not what this target writes there."""
    return [event for event in read_events(run.events) if all(_sound(k, v) for k, v in {**_NEEDED, **event}.items())]


_NEEDED = {"attempt": None}
_COUNT = 10**9


def _sound(name: str, value: object) -> bool:
    if name == "attempt":
        return type(value) is int and 0 <= value < _COUNT
    if name == "code":
        return type(value) is int and -_COUNT < value < _COUNT
    if name == "saved":
        return value is None or (type(value) is int and value >= 0)
    if name in ("stage", "phase", "class"):
        return isinstance(value, str)
    if name == "nodes":  # a list of Slurm's in one word, or names one by one
        return isinstance(value, str) or (isinstance(value, list) and all(isinstance(node, str) for node in value))
    return True


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
        # by attempt, not by time: clocks of nodes and clients differ
        if replaced and event["attempt"] >= record.latest.attempt and event.get("stage") in jobs:
            jobs[str(event["stage"])] = str(event["job"])
    return jobs
