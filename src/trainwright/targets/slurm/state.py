"""Where a run on Slurm stands: a pure function over its jobs, as Slurm tells them, and what the run's folder says.

``look`` reads the folder, ``state_of`` judges. The sentence is the outermost gate's while a run waits, and the
innermost and earliest cause's once it has failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from trainwright.runs.events import SUPERVISOR
from trainwright.runs.exit_codes import TrainExit, exit_words
from trainwright.runs.failures import Failure
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobState, Phase, Reason, ReasonClass
from trainwright.runs.steps import saved_step
from trainwright.targets.local.policy import failure_class
from trainwright.targets.reasons import Match, earliest_cause, explain, match
from trainwright.targets.slurm.between import first_error, known_lines
from trainwright.targets.slurm.queue import Job

#: What Slurm itself says of a job's end that no exit code can say.
_SLURMS_OWN = frozenset({"NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "BOOT_FAIL", "DEADLINE"})
#: Whose messages the first error of a rank may be; causes among them know the next step better than we do.
_LIBRARIES = (
    "nvidia-driver", "cuda", "nccl", "aws-ofi-nccl", "gloo", "neuron", "flash-attention", "huggingface", "deepspeed",
    "aws-sdk", "os",
)  # fmt: skip


@dataclass(frozen=True)
class Snapshot:
    """What was read of a run at one moment. ``jobs``: stage → job, None for one that Slurm has forgotten."""

    run_id: str
    jobs: Mapping[str, Job | None]
    attempt: int = 0
    cancelled: bool = False
    finished: Mapping[str, Any] | None = None
    begun: tuple[str, ...] = ()
    last_end: Mapping[str, Any] | None = None
    failure: Failure | None = None
    slurm_says: Match | None = None
    saved: int | None = None


def look(run: RunFolder, jobs: Mapping[str, Job | None], events: list[dict[str, Any]], first: int) -> Snapshot:
    """Read the run's folder. Attempts before ``first``, the first of this submission, are not about these jobs."""
    told = [e for e in events if e.get("rank") == SUPERVISOR and e["attempt"] >= first]
    attempt = max((int(e["attempt"]) for e in told), default=0)
    stage = _stage(jobs)
    ended_badly = _fate(jobs) == "failed"
    ends = [e for e in told if "saved" in e and "stage" in e]
    failure = says = None
    if ended_badly and stage is not None:
        at = int(ends[-1]["attempt"]) if ends else max(attempt, 1)
        step = str(ends[-1]["stage"]) if ends else stage
        failure = first_error(run, at, step, events)
        job = jobs[stage]
        logs = [run.stage_log(at, step), *([run.logs / f"slurm-{job.id}.log"] if job else [])]
        says = earliest_cause([line for log in logs for line in known_lines(log)])
    return Snapshot(
        run_id=run.run_id,
        jobs=jobs,
        attempt=attempt,
        cancelled=run.cancel_request.exists(),
        finished=next((e for e in reversed(told) if e.get("kind") == "finished"), None),
        begun=tuple(str(e["stage"]) for e in told if e.get("kind") == "started" and "stage" in e),
        last_end=ends[-1] if ends else None,
        failure=failure,
        slurm_says=says,
        saved=saved_step(run),
    )


def state_of(seen: Snapshot) -> JobState:
    """The state in the words that every target uses."""
    fate = _fate(seen.jobs)
    if fate == "done" or (fate == "forgotten" and (seen.finished or {}).get("phase") == "SUCCEEDED"):
        return JobState("SUCCEEDED", attempt=seen.attempt, since=_ended(seen))
    stage = _stage(seen.jobs)
    job = seen.jobs.get(stage) if stage is not None else None
    if fate == "forgotten" or job is None or stage is None:
        return _forgotten(seen)
    node = job.nodes or None
    if seen.cancelled and fate == "failed":
        reason = Reason.told("slurm-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
        return JobState("CANCELLED", reason, None, node, seen.attempt, job.ended)
    if fate == "failed":
        return _failed(seen, stage, job)
    return _live(seen, stage, job)


def _live(seen: Snapshot, stage: str, job: Job) -> JobState:
    base = JobState("PENDING", None, None, job.nodes or None, seen.attempt, job.submitted, stage)
    if job.state == "PENDING":
        return replace(base, reason=_waits(seen, stage, job))
    if job.state == "CONFIGURING":
        reason = explain("slurm", f"JobState={job.state}", where="State column")
        return replace(base, phase="STARTING", reason=reason, since=job.started)
    phase: Phase = "STARTING" if stage == "prepare" or stage not in seen.begun else "RUNNING"
    reason_text = f"Reason={job.reason}" if job.reason else ""
    found = match("slurm", reason_text, where="Reason=") if reason_text else None
    reason_ = found.reason if found is not None and found.state == "starting" else _restarted(seen)
    if job.state == "SUSPENDED":
        reason_ = Reason.told(
            "slurm-suspended", "priority", "The job is suspended", "ask the operators", "after-wait"
        )
    return replace(base, phase=phase, reason=reason_, since=job.started)


def _waits(seen: Snapshot, stage: str, job: Job) -> Reason:
    """Why a job is not running yet. After a requeue, what had happened comes first."""
    text = f"Reason={job.reason}" if job.reason else ""
    why = explain("slurm", text, where="squeue") if text else _not_looked_at(seen)
    if seen.last_end is None:
        return why
    code = int(seen.last_end.get("code", 0))
    what = (
        "saved its state and was queued again" if code == TrainExit.RESUME_ME else "ended early and was queued again"
    )
    sentence = f"{stage} {what}{_saved(seen)}. {why.sentence}"
    return replace(why, sentence=sentence)


def _not_looked_at(seen: Snapshot) -> Reason:
    text = "The job is queued; Slurm has not looked at it yet"
    return Reason.told("slurm-queued", "priority", text, f"trainwright status --watch {seen.run_id}", "after-wait")


def _restarted(seen: Snapshot) -> Reason | None:
    """Why this is not the first attempt."""
    if seen.last_end is None:
        return None
    stage, code = seen.last_end.get("stage"), int(seen.last_end.get("code", 0))
    text = f"{stage} {exit_words(code)} before and was started again"
    return Reason.told("slurm-restarted", "unknown", text, f"trainwright events {seen.run_id}")


def _failed(seen: Snapshot, stage: str, job: Job) -> JobState:
    told = seen.failure if seen.failure is not None and not seen.failure.echo else None
    reason = _by_slurm(seen, job) or _by_code(seen, stage, job, told)
    way_out = f"{reason.next_step.rstrip('.')}, then: {_resume(seen)}" if reason.next_step else _resume(seen)
    phase: Phase = "CANCELLED" if job.state == "CANCELLED" and reason.id == "slurm-state-cancelled" else "FAILED"
    node = job.nodes or None
    rank = told.rank if told is not None and phase == "FAILED" else None
    return JobState(phase, replace(reason, next_step=way_out), rank, node, seen.attempt, job.ended)


def _by_slurm(seen: Snapshot, job: Job) -> Reason | None:
    """What only Slurm knows: it beats every line of a log."""
    if job.state in _SLURMS_OWN:
        reason = explain("slurm", f"JobState={job.state}", where="State column")
        return replace(reason, sentence=reason.sentence[:-1] + f"{_saved(seen)}.")
    says = seen.slurm_says
    if says is not None and says.reason.class_ in ("oom", "node-lost", "hardware"):
        return says.reason
    if (
        job.state == "FAILED"
        and job.signal
        and (by_signal := match("slurm", f"ExitCode=0:{job.signal}", where="ExitCode")) is not None
    ):
        return by_signal.reason  # Slurm calls a killed script JobLaunchFailure too
    held = match("slurm", f"Reason={job.reason}", where="Reason=") if job.reason else None
    if held is not None and held.state == "failed":
        return held.reason
    if job.state == "CANCELLED" and not (seen.finished or {}).get("code"):
        if held is not None and held.role == "cause":  # DependencyNeverSatisfied
            return held.reason
        reason = explain("slurm", "JobState=CANCELLED", where="State column")
        return replace(reason, sentence=f"The job was cancelled{_saved(seen)}.")
    return None


def _by_code(seen: Snapshot, stage: str, job: Job, told: Failure | None) -> Reason:
    """The first error of a rank on top, with what its exit code, or the library it comes from, says beside it."""
    end = seen.last_end or {}
    code = int(end.get("code") or job.exit_code or 1)
    raw = f"job {job.id}: {job.state} {job.exit_code if job.exit_code is not None else '?'}:{job.signal or 0}"
    name, class_, sentence, way_out = _judge(code, stage)
    retry: Literal["none", "same-node-ok"] = "none" if class_ in ("user-error", "config") else "same-node-ok"
    if told is None:
        return Reason.told(name, class_, sentence, way_out, retry, raw)
    who = f"rank {told.rank}: " if told.rank is not None else ""
    sentence = f"{who}{told.text}" + (f" ({told.where})" if told.where else "")
    raw = f"{raw}; {told.log}" if told.log else raw
    library = next(_known(told.text), None)
    if library is not None:
        class_, way_out, retry = library.class_, library.next_step, retry
    return Reason.told(name, class_, sentence, way_out, retry, raw)


def _known(text: str) -> Iterator[Reason]:
    for system in _LIBRARIES:
        found = match(system, text)
        if found is not None and found.role == "cause":
            yield found.reason


def _judge(code: int, stage: str) -> tuple[str, ReasonClass, str, str]:
    if code == TrainExit.NON_FINITE:
        return "slurm-non-finite", "user-error", f"{stage}: loss or gradients are not finite", (
            "lower optimizer.lr, look at the samples named in the log, or set nan: skip")  # fmt: skip
    if code == TrainExit.HUNG_COLLECTIVE:
        return "slurm-hung-collective", "timeout", f"{stage}: a collective never finished", "look at each rank's log"
    if code == TrainExit.RESUME_ME:
        return "slurm-saved", "preempted", f"{stage} saved its state on a signal and was not queued again", ""
    if failure_class(code) == "user":
        return "slurm-user-error", "user-error", f"{stage} {exit_words(code)}", "mend the error"
    return "slurm-crash", "unknown", f"{stage} {exit_words(code)}, more often than retry.infrastructure allows", (
        "look at the log")  # fmt: skip


def _forgotten(seen: Snapshot) -> JobState:
    """Slurm remembers nothing, and there is no accounting: the run's own books tell what they can."""
    if seen.finished is not None:
        phase: Phase = "CANCELLED" if seen.cancelled or seen.finished.get("phase") == "CANCELLED" else "FAILED"
        code, stage = int(seen.finished.get("code") or 1), str(seen.finished.get("stage"))
        if phase == "CANCELLED":
            reason = Reason.told("slurm-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
        else:
            name, class_, text, way_out = _judge(code, stage)
            reason = Reason.told(name, class_, text, f"{way_out}, then: {_resume(seen)}".lstrip(", "))
        return JobState(phase, reason, None, None, seen.attempt, float(seen.finished["t"]))
    if seen.cancelled:
        reason = Reason.told("slurm-cancelled", "unknown", f"Cancelled by a user{_saved(seen)}", _resume(seen))
        return JobState("CANCELLED", reason, attempt=seen.attempt)
    text = f"Slurm knows nothing of the run's jobs any more, and they left no word of their end{_saved(seen)}"
    return JobState(
        "FAILED", Reason.told("slurm-forgotten", "unknown", text, _resume(seen), "same-node-ok"), attempt=seen.attempt
    )


def _stage(jobs: Mapping[str, Job | None]) -> str | None:
    """The stage that the run is at: the first that is not complete. A stage after a running one may be forgotten."""
    for stage, job in jobs.items():
        if job is not None and job.state != "COMPLETED":
            return stage
    return None


def _fate(jobs: Mapping[str, Job | None]) -> Literal["live", "done", "failed", "forgotten"]:
    """What becomes of the chain: it goes on, it is complete, one job of it failed, or nobody knows."""
    last = [*jobs.values()][-1] if jobs else None
    if last is not None and last.state == "COMPLETED":  # it began only because all before it were complete
        return "done"
    stage = _stage(jobs)
    if stage is None:
        return "forgotten"
    job = jobs[stage]
    return "failed" if job is not None and job.final else "live"


def _ended(seen: Snapshot) -> float | None:
    times = [job.ended for job in seen.jobs.values() if job is not None and job.ended is not None]
    return max(times, default=None)


def _saved(seen: Snapshot) -> str:
    return f"; saved at step {seen.saved}" if seen.saved is not None else ""


def _resume(seen: Snapshot) -> str:
    return f"trainwright resume {seen.run_id}"
