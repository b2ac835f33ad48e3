"""Where a local run stands: a pure function over what was read of it (job.json, who lives, what failed).

``look`` reads, ``state_of`` judges. A run whose supervisor is gone is never called running.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Literal

from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import Exit, TrainExit, exit_words
from trainwright.runs.failures import Failure, first_failure
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobState, Reason, ReasonClass
from trainwright.runs.steps import saved_step
from trainwright.targets.local.policy import failure_class
from trainwright.targets.local.process import Liveness, ProcessId, liveness
from trainwright.targets.local.record import JobRecord, read_record, read_signature

_FULL = 1 << 20  # fewer free bytes than this is a full disk


@dataclass(frozen=True)
class Snapshot:
    """What was read of a run at one moment. ``supervisor`` is who signed last, by job.json or by the lock."""

    run_id: str
    submitted: bool
    record: JobRecord | None = None
    supervisor: ProcessId | None = None
    alive: Liveness | None = None
    failure: Failure | None = None
    saved: int | None = None
    disk_full: bool = False
    supervisor_log: str = ""


def look(run: RunFolder) -> Snapshot:
    """Read a run's folder and the process table; writes nothing."""
    record = read_record(run)
    signature = read_signature(run)
    supervisor = record.supervisor if record else signature[0] if signature else None
    alive = liveness(supervisor) if supervisor else None
    ended_badly = record is not None and (
        record.ended in ("failed", "stopped") or (not record.ended and alive == "dead")
    )
    failure = None
    if record is not None and ended_badly:
        failure = first_failure(run, record.attempt, record.stage, read_events(run.events))
    return Snapshot(
        run_id=run.run_id,
        submitted=run.job_file.exists() or signature is not None,
        record=record,
        supervisor=supervisor,
        alive=alive,
        failure=failure,
        saved=saved_step(run),
        disk_full=_disk_full(run),
        supervisor_log=str(run.supervisor_log),
    )


def state_of(seen: Snapshot) -> JobState:
    """The state in the words that every target uses."""
    record = seen.record
    if record is None:
        return _without_record(seen)
    node = record.supervisor.host
    if record.ended is None and seen.alive == "dead":
        culprit = seen.failure.rank if seen.failure else None
        return JobState("FAILED", _gone(seen, record), culprit, node, record.attempt, record.since)
    reason: Reason | None = None
    rank: int | None = None
    if record.ended is None and seen.alive == "elsewhere":
        reason = Reason.told(
            "local-elsewhere", "unknown", f"Started on {node}; whether it still lives is known only there",
            f"ask there: trainwright status {seen.run_id}",
        )  # fmt: skip
    elif record.ended is None and seen.disk_full:
        text = f"The disk is full, so logs, checkpoints and the state shown here may lag behind{_saved(seen)}"
        reason = Reason.told("local-disk-full", "volume", text, "free some space", "after-wait")
    elif record.ended is None and record.code is not None:
        text = f"{_name(record.stage)} {exit_words(record.code)} before and was started again"
        reason = Reason.told(
            "local-restarted", "unknown", text, f"trainwright events {seen.run_id}", raw=_raw(record)
        )
    elif record.ended == "failed":
        reason, rank = _failed(seen, record), seen.failure.rank if seen.failure else None
    elif record.ended == "cancelled":
        reason = Reason.told("local-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
    elif record.ended == "stopped":
        reason = Reason.told(
            "local-stopped", "preempted", f"Stopped by a signal from outside, such as a shutdown{_saved(seen)}",
            _resume(seen), "same-node-ok", _raw(record),
        )  # fmt: skip
    elif record.ended == "broken":
        reason = Reason.told(
            "local-broken", "config", f"The supervisor could not go on: {record.detail}",
            f"mend that, then {_resume(seen)}", raw=record.detail,
        )  # fmt: skip
    elif record.warnings:
        text = f"The run is complete, but {' and '.join(record.warnings)} failed"
        reason = Reason.told("local-incomplete", "unknown", text, f"trainwright report {seen.run_id}")
    return JobState(record.phase, reason, rank, node, record.attempt, record.since, record.stage)


def _without_record(seen: Snapshot) -> JobState:
    if not seen.submitted:
        return JobState(
            "PENDING",
            Reason.told("local-not-submitted", "dependency", "The run was rendered, not submitted",
                    f"trainwright submit {seen.run_id}/bundle"),
        )  # fmt: skip
    lives = seen.alive == "alive"
    what = "job.json cannot be read" if not lives else "job.json cannot be read, but the supervisor lives"
    way_out = "it is written again at the next change" if lives else f"{_resume(seen)} writes it again"
    reason = Reason.told("local-unreadable", "volume", f"{what}; checkpoints are not touched by that", way_out)
    host = seen.supervisor.host if seen.supervisor else None
    return JobState("RUNNING" if lives else "FAILED", reason, node=host)


def _gone(seen: Snapshot, record: JobRecord) -> Reason:
    pid = record.supervisor.pid
    if seen.disk_full:
        text = f"The supervisor (pid {pid}) ended and could not say why: the disk is full{_saved(seen)}"
        return Reason.told("local-disk-full", "volume", text, f"free some space, then {_resume(seen)}", "after-wait")
    text = (
        f"The supervisor (pid {pid}) ended without a word during {_name(record.stage)}: "
        f"killed, out of memory, or the machine restarted{_saved(seen)}"
    )
    raw = f"see {seen.supervisor_log}"
    return Reason.told("local-supervisor-gone", "node-lost", text, _resume(seen), "same-node-ok", raw)


def _failed(seen: Snapshot, record: JobRecord) -> Reason:
    """The first error on top: rank, exception, file and line; else what the exit code says."""
    code = record.code if record.code is not None else 1
    id_, class_, told, way_out = _judge(code, record)
    failure = seen.failure
    sentence, raw = told, _raw(record)
    if failure is not None:
        who = f"rank {failure.rank}: " if failure.rank is not None else ""
        first = f"{who}{failure.text}" + (f" ({failure.where})" if failure.where else "")
        # What the others saw of a process that was killed is only that it was gone, and a run that always asks to
        # be started again has no error; still, what stands in a log is not hidden.
        sentence, raw = (told, f"{raw}; {first}") if class_ == "oom" or code == TrainExit.RESUME_ME else (first, raw)
        raw = f"{raw}; {failure.log}" if failure.log else raw
    retry: Literal["none", "same-node-ok"] = "none" if class_ in ("user-error", "config") else "same-node-ok"
    then = f"{way_out}, then {_resume(seen)}"
    if code == Exit.BAD_INPUT:  # a resume keeps the spec that the run began with
        then += "; if the spec is what must change, trainwright run it again instead"
    return Reason.told(id_, class_, sentence, then, retry, raw)


def _judge(code: int, record: JobRecord) -> tuple[str, ReasonClass, str, str]:
    stage, ended = _name(record.stage), exit_words(code)
    if code == TrainExit.NON_FINITE:
        return "local-non-finite", "user-error", f"{stage}: loss or gradients are not finite", (
            "lower optimizer.lr, look at the samples named in the log, or set nan: skip")  # fmt: skip
    if code == TrainExit.RESUME_ME:
        times = record.used.idle_resumes + 1
        text = f"{stage} asked {times} times in a row to be started again (exit code 75) without a new checkpoint"
        return "local-idle-resumes", "user-error", text, "find out why it stops before it has saved"
    if code == TrainExit.HUNG_COLLECTIVE:
        return "local-hung-collective", "timeout", f"{stage}: a collective never finished", "look at each rank's log"
    if record.oom:
        return "local-oom", "oom", f"{stage} {ended}: the kernel killed a process because memory ran out", (
            "take a smaller micro_batch_size, fewer processes or more recompute")  # fmt: skip
    if failure_class(code) == "user":
        return "local-user-error", "user-error", f"{stage} {ended}", "mend the error"
    if abs(code) == signal.SIGKILL or code == 128 + signal.SIGKILL:
        return "local-killed", "unknown", f"{stage} {ended}: somebody, or a limit on memory, killed it", (
            "watch its memory")  # fmt: skip
    return "local-crash", "unknown", f"{stage} {ended}", "look at the log"


def _name(stage: str | None) -> str:
    return stage or "the start"


def _raw(record: JobRecord) -> str:
    return f"{_name(record.stage)} {exit_words(record.code)}" if record.code is not None else ""


def _saved(seen: Snapshot) -> str:
    return f"; saved at step {seen.saved}" if seen.saved is not None else ""


def _resume(seen: Snapshot) -> str:
    return f"trainwright resume {seen.run_id}"


def _disk_full(run: RunFolder) -> bool:
    try:
        space = os.statvfs(run.root)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < _FULL or (space.f_files > 0 and space.f_favail == 0)
