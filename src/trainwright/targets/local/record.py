"""``job.json``: what the local supervisor knows of its run; and the lock that lets one supervisor exist at a time.

Only the supervisor writes the record, atomically; everyone may read it. The lock is a flock on ``run.lock``: it
belongs to an open file and passes to the processes that inherit it, so there is no moment between the command
line letting go and the supervisor taking hold.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from trainwright.errors import SystemUnreachable
from trainwright.runs.folder import RunFolder, read_json, write_atomically
from trainwright.runs.state import Phase
from trainwright.targets.local.policy import Used
from trainwright.targets.local.process import ProcessId

#: Why nothing more happens: all stages done, a stage failed beyond its budget, a user cancelled, a signal that no
#: user asked for, or the supervisor itself could not go on.
Ended = Literal["finished", "failed", "cancelled", "stopped", "broken"]
_PHASE_OF: dict[Ended, Phase] = {
    "finished": "SUCCEEDED", "failed": "FAILED", "cancelled": "CANCELLED", "stopped": "FAILED", "broken": "FAILED",
}  # fmt: skip


@dataclass(frozen=True)
class JobRecord:
    """One run under one supervisor. ``since`` is seconds since the epoch, of the last change of phase or stage.

    ``code`` is the exit code of the last stage that did not end well, negative for a signal; ``oom`` tells that
    the kernel killed a process for memory while that stage ran. ``warnings`` are failed stages that were not
    required. ``mark`` is found in the environment of every process of the run.
    """

    supervisor: ProcessId
    mark: str
    attempt: int
    stage: str | None
    since: float
    phase: Phase = "STARTING"
    ended: Ended | None = None
    code: int | None = None
    oom: bool = False
    detail: str = ""
    completed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    used: Used = field(default_factory=Used)
    cwd: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Content of ``job.json``."""
        return {"v": 1, "target": "local", **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> JobRecord | None:
        """Read what ``to_dict`` wrote; None for anything else."""
        supervisor = ProcessId.from_dict(values.get("supervisor"))
        try:
            record = cls(
                supervisor=supervisor,  # type: ignore[arg-type]  # checked below
                mark=str(values["mark"]),
                attempt=int(values["attempt"]),
                stage=None if values["stage"] is None else str(values["stage"]),
                since=float(values["since"]),
                phase=values["phase"],
                ended=values["ended"],
                code=None if values["code"] is None else int(values["code"]),
                oom=bool(values["oom"]),
                detail=str(values["detail"]),
                completed=tuple(map(str, values["completed"])),
                warnings=tuple(map(str, values["warnings"])),
                used=Used(**values["used"]),
                cwd=str(values["cwd"]),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        sound = record.phase in get_args(Phase) and record.ended in (None, *get_args(Ended)) and record.mark
        return record if supervisor is not None and sound else None


def final_phase(ended: Ended) -> Phase:
    """The phase in which a run that ended so stands."""
    return _PHASE_OF[ended]


def read_record(run: RunFolder) -> JobRecord | None:
    """The record, or None when there is none that can be read."""
    values = read_json(run.job_file)
    return JobRecord.from_dict(values) if values is not None else None


def write_record(run: RunFolder, record: JobRecord) -> None:
    """Replace the record. Raises OSError when the disk is full or read-only."""
    write_atomically(run.job_file, json.dumps(record.to_dict(), indent=2) + "\n")


def take_lock(run: RunFolder) -> int | None:
    """Lock the run and return the open file; None while somebody else holds it.

    Raises SystemUnreachable where the folder cannot be written or its file system has no locks.
    """
    try:
        descriptor = os.open(run.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise unwritable(run.root, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        what = f"{run.lock} cannot be locked: {error.strerror}"
        raise SystemUnreachable(
            what, "keep runs on a file system with locks; --runs or TRAINWRIGHT_RUNS names it"
        ) from error
    return descriptor


def sign_lock(descriptor: int, supervisor: ProcessId, mark: str) -> None:
    """Write who holds the lock into it: a second place to learn that, should job.json be lost."""
    text = json.dumps({"supervisor": supervisor.to_dict(), "mark": mark}) + "\n"
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def read_signature(run: RunFolder) -> tuple[ProcessId, str] | None:
    """Who signed the lock last, and its mark; None when that cannot be read."""
    values = read_json(run.lock) or {}
    supervisor, mark = ProcessId.from_dict(values.get("supervisor")), values.get("mark")
    return (supervisor, mark) if supervisor is not None and isinstance(mark, str) and mark else None


def unwritable(path: Path, error: OSError) -> SystemUnreachable:
    """The error for a folder that cannot be written."""
    way_out = "free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it writable"
    return SystemUnreachable(
        f"{path} cannot be written: {error.strerror}",
        f"{way_out}, or keep runs elsewhere: --runs or TRAINWRIGHT_RUNS",
    )
