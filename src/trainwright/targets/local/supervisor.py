"""The supervisor of one local run: a process of its own session that starts the stages, restarts them and keeps
the books in job.json and the event log.

It takes the folder of a run and an open, locked ``run.lock``; it knows nothing of training, only commands, exit
codes and signals. Whatever it starts carries its mark. Should it die in any way, even by SIGKILL, a watcher sees
its pipe close and ends everything that carries the mark before the lock is free again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from trainwright.errors import InputError, TrainwrightError
from trainwright.runs.events import SUPERVISOR, Kind, read_events
from trainwright.runs.exit_codes import TrainExit, exit_words
from trainwright.runs.failures import first_failure
from trainwright.runs.folder import RunFolder, read_json
from trainwright.runs.steps import saved_step
from trainwright.spec.model import RunSpec
from trainwright.targets.local import record as records
from trainwright.targets.local.environment import clean, stage_environment
from trainwright.targets.local.policy import Used, decide, failure_class, memory_ran_out
from trainwright.targets.local.process import (
    adopt_orphans,
    die_with_parent,
    end_marked,
    identify,
    liveness,
    reap,
)
from trainwright.targets.local.record import Ended, JobRecord
from trainwright.targets.local.stages import NAME, Settings, Stage
from trainwright.targets.local.watcher import STOP_SIGNALS, say, start_watcher
from trainwright.targets.place import last_attempt

_CANNOT_START = 127  # as a shell says it: there is no such program
_FIRST_PATIENCE, _LAST_PATIENCE = 0.5, 256.0  # seconds between tries to write the last word; about 8 minutes in all


class Supervisor:
    """Runs the stages of one run to an end. ``run`` returns when nothing more will happen."""

    def __init__(self, run: RunFolder, spec: RunSpec, settings: Settings, record: JobRecord):
        self.run_folder, self.spec, self.settings = run, spec, settings
        self.record = record
        self.environment = clean(os.environ)
        self._stop = False
        self._wake, wake_writer = os.pipe()
        os.set_blocking(wake_writer, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        for number in STOP_SIGNALS:
            signal.signal(number, self._on_signal)

    def run(self) -> Ended:
        """Run what is left of the stages."""
        for stage in self.settings.stages:
            if stage.name in self.record.completed:
                continue
            ended = self._complete(stage)
            if ended is not None:
                return self._end(ended)
        return self._end("finished")

    def _complete(self, stage: Stage) -> Ended | None:
        """Run one stage until it is done or nothing more can be tried; None when the run goes on."""
        while not self._stop:
            saved_before = saved_step(self.run_folder)
            self._update(stage=stage.name, phase="STARTING" if stage.name == "prepare" else "RUNNING")
            self._event("started", stage=stage.name)
            kills_before = _oom_kills()
            code = self._run_once(stage)
            if code == TrainExit.FINISHED:
                self._update(completed=(*self.record.completed, stage.name), code=None, oom=False)
                return None
            self._update(code=code, oom=memory_ran_out(code, _oom_kills() - kills_before))
            if self._stop:
                break
            saved = saved_step(self.run_folder)
            decision = decide(
                code,
                self.record.used,
                self.spec.retry,
                saved_more=saved is not None and saved != saved_before,
                delay_seconds=self.settings.restart_delay_seconds,
            )
            if code != TrainExit.RESUME_ME:
                self._tell_failure(stage, code)
            if decision.action == "fail":
                if stage.required:
                    return "failed"
                self._update(warnings=(*self.record.warnings, stage.name), code=None, oom=False)
                return None
            self._wait_for_stop(decision.delay_seconds)
            if not self._stop:
                self._update(attempt=self.record.attempt + 1, used=decision.used)
                self._event("restarted", stage=stage.name, code=code, why=f"{stage.name} {exit_words(code)}")
        return "cancelled" if self.run_folder.cancel_request.exists() else "stopped"

    def _run_once(self, stage: Stage) -> int:
        """Start a stage, pass a stop on to it, and return its exit code once nothing of it is left."""
        try:
            child = self._start(stage)
        except _CannotStart as error:
            say(f"{stage.name}: {error}")
            with contextlib.suppress(OSError):
                self._log_file(stage).write_text(f"{error}\n")
            return error.code
        code = self._wait(child)
        # The launcher may have died alone; what it started goes before anything is started again.
        end_marked(self.record.mark, self._grace())
        reap()
        return code

    def _start(self, stage: Stage) -> subprocess.Popen[bytes]:
        attempt, folder = self.record.attempt, self.run_folder.root
        try:
            variables = stage_environment(self.spec, self.environment, folder, attempt, self.record.mark)
            log = self._log_file(stage).open("ab")
        except InputError as error:
            raise _CannotStart(str(error), TrainExit.USER_ERROR) from error
        except OSError as error:
            raise _CannotStart(f"its log cannot be written: {error}", _CANNOT_START) from error
        with log:
            try:
                return subprocess.Popen(
                    stage.argv(folder),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=variables,
                    cwd=self.record.cwd or None,
                    process_group=0,
                    preexec_fn=die_with_parent(signal.SIGTERM),
                )
            except (FileNotFoundError, NotADirectoryError, PermissionError, ValueError) as error:
                raise _CannotStart(f"cannot be started: {error}", TrainExit.USER_ERROR) from error
            except (OSError, subprocess.SubprocessError) as error:
                raise _CannotStart(f"cannot be started: {error}", _CANNOT_START) from error

    def _wait(self, child: subprocess.Popen[bytes]) -> int:
        """Wait without polling: for the child's end or for a signal to us. A stop gives the child its grace."""
        handle = os.pidfd_open(child.pid)
        deadline: float | None = None
        try:
            while not self._ready(handle, deadline):
                if self._stop and deadline is None:
                    self._event("signal", signal="SIGTERM")
                    _signal_group(child.pid, signal.SIGTERM)
                    deadline = time.monotonic() + self._grace()
                elif deadline is not None and time.monotonic() >= deadline:
                    say(f"pid {child.pid} did not end in time; it is killed")
                    _signal_group(child.pid, signal.SIGKILL)
                    child.wait()
        finally:
            os.close(handle)
        return child.wait()

    def _ready(self, handle: int, deadline: float | None) -> bool:
        """True once the handle is readable; False after a signal or at the deadline."""
        if self._stop and deadline is None:
            return bool(select.select([handle], [], [], 0)[0])
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        readable, _, _ = select.select([handle, self._wake], [], [], timeout)
        self._drain_wakeups()
        return handle in readable

    def _wait_for_stop(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self._stop and (left := deadline - time.monotonic()) > 0:
            select.select([self._wake], [], [], left)
            self._drain_wakeups()

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake, 4096):
                pass

    def _on_signal(self, number: int, frame: object) -> None:
        self._stop = True

    def _grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL; whoever cancels may ask for another time."""
        asked = (read_json(self.run_folder.cancel_request) or {}).get("grace_seconds")
        return float(asked) if isinstance(asked, int | float) and asked >= 0 else self.settings.grace_seconds

    def _tell_failure(self, stage: Stage, code: int) -> None:
        """One event with the first error that any rank reported or left in its log."""
        attempt = self.record.attempt
        first = first_failure(self.run_folder, attempt, stage.name, read_events(self.run_folder.events))
        said = {"exception": first.text, "line": first.where, "failing_rank": first.rank} if first else {}
        self._event("failed", stage=stage.name, code=code, **{"class": failure_class(code)}, **said)

    def _log_file(self, stage: Stage) -> Path:
        path = self.run_folder.stage_log(self.record.attempt, stage.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _end(self, ended: Ended) -> Ended:
        self._event("finished", phase=records.final_phase(ended), ended=ended)
        changes: dict[str, Any] = {"ended": ended, "phase": records.final_phase(ended)}
        if ended == "finished":
            changes["stage"] = None
        wait = _FIRST_PATIENCE
        while not self._update(**changes) and wait <= _LAST_PATIENCE:
            self._wait_for_stop(wait)  # without its last word, a finished run would look like a killed one
            wait *= 2
        return ended

    def _update(self, **changes: Any) -> bool:
        """Change the record. A disk that is full for a moment must not end a training that goes on."""
        moved = any(changes.get(name, getattr(self.record, name)) != getattr(self.record, name)
                    for name in ("phase", "stage", "attempt"))  # fmt: skip
        self.record = replace(self.record, **changes)
        if moved:
            self.record = replace(self.record, since=time.time())
        try:
            records.write_record(self.run_folder, self.record)
        except OSError as error:
            say(f"{self.run_folder.job_file} cannot be written: {error}")
            return False
        return True

    def _event(self, kind: Kind, **fields: Any) -> None:
        try:
            self.run_folder.event_log(self.record.attempt, SUPERVISOR).write(kind, **fields)
        except OSError as error:
            say(f"event {kind} cannot be written: {error}")


class _CannotStart(Exception):
    def __init__(self, message: str, code: int):
        self.code = int(code)
        super().__init__(message)


def first_record(run: RunFolder, mark: str, cwd: str, settings: Settings) -> JobRecord:
    """The record of a new supervisor: the next attempt, with what an earlier one had completed."""
    me = identify(os.getpid())
    if me is None:
        raise RuntimeError("this process is not in /proc")
    before = records.read_record(run)
    # data is checked again, which takes no time when nothing changed; stages that are done stay done
    done = tuple(name for name in before.completed if name != "prepare") if before else ()
    return JobRecord(
        supervisor=me,
        mark=mark,
        # neither the logs nor job.json are trusted alone
        attempt=max(last_attempt(run), before.attempt if before else 0) + 1,
        stage=None,
        since=time.time(),
        completed=tuple(stage.name for stage in settings.stages if stage.name in done),
        used=Used(),
        cwd=before.cwd if before and before.cwd else cwd,
    )


def _end_earlier(run: RunFolder, grace_seconds: float) -> None:
    """Nothing of an earlier supervisor may train on beside this one, however that one ended."""
    before = records.read_record(run)
    signature = records.read_signature(run)
    marks = {before.mark} if before and liveness(before.supervisor) == "dead" else set()
    marks |= {signature[1]} if signature and liveness(signature[0]) == "dead" else set()
    for mark in marks:
        end_marked(mark, grace_seconds)


@contextlib.contextmanager
def _answer(pipe: int) -> Iterator[dict[str, Any]]:
    """Tell whoever started us whether we stand: one JSON object, also when something raises."""
    said: dict[str, Any] = {}
    try:
        yield said
        said["ok"] = True
    except TrainwrightError as error:
        said["error"] = error.message if error.message else str(error)
        raise
    except OSError as error:
        said["error"] = str(error)
        raise
    finally:
        with contextlib.suppress(OSError):  # it may have left; the run goes on without it
            os.write(pipe, json.dumps(said).encode())
        os.close(pipe)


def supervise(root: Path, lock: int, ready: int, cwd: str) -> Ended:
    """Supervise a run to its end. ``lock`` is its locked ``run.lock``, ``ready`` a pipe to whoever started us."""
    run = RunFolder(root)
    mark = secrets.token_hex(16)
    with _answer(ready):
        os.set_inheritable(lock, False)
        spec, settings = run.spec(), Settings.read(run.bundle / NAME)
        record = first_record(run, mark, cwd, settings)
        _end_earlier(run, settings.grace_seconds)
        run.cancel_request.unlink(missing_ok=True)
        adopt_orphans()
        watcher = start_watcher(mark, settings.grace_seconds, ready)
        records.sign_lock(lock, record.supervisor, mark)
        supervisor = Supervisor(run, spec, settings, record)
        records.write_record(run, record)
    try:
        ended = supervisor.run()
    except Exception as error:  # a defect here must not look like a kill
        traceback.print_exc()
        end_marked(mark, settings.grace_seconds)
        with contextlib.suppress(OSError):
            detail = f"{type(error).__name__}: {error}"
            broken = replace(supervisor.record, ended="broken", phase="FAILED", detail=detail, since=time.time())
            records.write_record(run, broken)
        raise
    finally:
        with contextlib.suppress(OSError):
            os.write(watcher, b".")
    return ended


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def _oom_kills() -> int:
    """Processes that the kernel has killed for memory since boot; 0 where it does not say."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


def main() -> NoReturn:
    """Entry of ``python -m trainwright.targets.local.supervisor``; leaves the starter at once by forking."""
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--lock", type=int, required=True)
    parser.add_argument("--ready", type=int, required=True)
    arguments = parser.parse_args()
    if os.fork():  # the starter waits for this process, so that it leaves no zombie behind
        os._exit(0)
    cwd = os.getcwd()
    supervise(arguments.root, arguments.lock, arguments.ready, cwd)
    sys.exit(0)


if __name__ == "__main__":
    main()
