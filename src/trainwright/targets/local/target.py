"""The local target: renders ``local.yaml``, starts one supervisor for a run, and answers for it afterwards.

Everything it knows about a run it reads from the run's folder and the process table, so any later command, in any
shell, sees the same. It holds no state of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, default_runs, write_atomically
from trainwright.runs.state import JobRef, JobState
from trainwright.spec.load import read_resolved
from trainwright.spec.model import RunSpec
from trainwright.spec.paths import is_remote
from trainwright.spec.site import Site
from trainwright.targets.bundle import Bundle, BundleFile, carried, read_for
from trainwright.targets.contract import LogLine
from trainwright.targets.hold import stays_as_it_is
from trainwright.targets.local import record as records
from trainwright.targets.local.beforehand import refuse_beforehand
from trainwright.targets.local.environment import clean
from trainwright.targets.local.process import ProcessId, end_marked, liveness, send
from trainwright.targets.local.stages import NAME, Settings, Stage, stages_of
from trainwright.targets.local.state import look, state_of
from trainwright.targets.logs import follow_logs, read_logs
from trainwright.targets.place import asked_for, names, run_of

_SCHEME = "local"
_START_SECONDS = 60.0  # a supervisor that has not answered by then hangs on a dead mount
_SLACK_SECONDS = 15.0  # beyond the grace, for what is killed to be gone


class Local:
    """This machine. ``stages`` replaces the commands that ``render`` writes; tests put small scripts there."""

    name = "local"

    def __init__(self, stages: tuple[Stage, ...] | None = None):
        self._stages = stages

    def render(self, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str]) -> Bundle:
        """``local.yaml`` with the stages, the resolved spec and the plan."""
        settings = Settings(self._stages or stages_of(spec)).patched(spec.target.overrides)
        return Bundle(
            run_id=identity.run_id(spec, plan.layout, versions),
            target=self.name,
            versions=dict(versions),
            where={},
            files=(BundleFile(NAME, settings.to_text(), 1), *carried(spec, plan)),
            command=next((stage.command for stage in settings.stages if stage.name == "train"), ()),
        )

    def submit(self, bundle: Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
        """Start the run of a bundle under a supervisor of its own; see ``Target.submit``."""
        rendered = _read_bundle(bundle)
        spec = read_resolved(bundle / "spec.yaml")
        place = _runs_folder(bundle, rendered.run_id, spec, runs)
        if fresh:
            run, lock = self._claim_new(place, rendered.run_id)
        else:
            run = run_of(place, rendered.run_id, fresh=False)
            taken = self._claim(run)
            if taken is None:
                return self.ref(run)
            lock = taken
        with _held(lock):
            refuse_beforehand(spec, bundle, os.environ)
            return self._start(run, lock, None if _is_rendered(run) else rendered)

    def resume(self, ref: JobRef, bundle: Path | None = None) -> JobRef:
        """Start an unfinished run again; with a bundle also a finished one, by the edited spec in it."""
        run = self.folder(ref)
        edited = _read_bundle(bundle) if bundle is not None else None
        lock = self._claim(run, again=edited is not None)
        if lock is None:
            stays_as_it_is(run, state_of(look(run)), edited=edited is not None)
            return ref
        with _held(lock):
            spec = read_resolved(bundle / "spec.yaml") if bundle is not None else run.spec()
            refuse_beforehand(spec, bundle or run.bundle, os.environ)
            before = records.read_record(run)
            if edited is not None and before is not None:
                with _writing(run):
                    records.write_record(run, replace(before, completed=()))
            return self._start(run, lock, edited)

    def ref(self, folder: RunFolder) -> JobRef:
        """``local://<run id>``; a run outside the default folder goes by its whole path."""
        usual = folder.root.parent == default_runs()
        return JobRef(_SCHEME, (folder.run_id if usual else str(folder.root.absolute()),))

    def folder(self, ref: JobRef) -> RunFolder:
        """The run's folder; InputError when the reference names none."""
        part = ref.parts[0] if ref.scheme == _SCHEME and len(ref.parts) == 1 else ""
        root = Path(part) if os.path.isabs(part) else default_runs() / part
        if not identity.is_run_id(root.name) or not root.is_dir():
            instead = "`trainwright ls` lists the runs"
            raise InputError([Problem(str(ref), what="names no run on this machine", instead=instead)])
        return RunFolder(root)

    def status(self, ref: JobRef) -> JobState:
        """See ``state.state_of``."""
        return state_of(look(self.folder(ref)))

    def statuses(self, refs: Sequence[JobRef]) -> list[JobState]:
        """Each by itself: files and the process table."""
        return [self.status(ref) for ref in refs]

    def events(self, ref: JobRef) -> list[dict[str, Any]]:
        """Events of all ranks and of the supervisor in order of time."""
        return read_events(self.folder(ref).events)

    def logs(self, ref: JobRef, *, rank: int | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of the stages and ranks of every attempt; see ``Target.logs``."""
        run = self.folder(ref)
        if follow:
            return follow_logs(run, rank, done=lambda: state_of(look(run)).final)
        return read_logs(run, rank)

    def cancel(self, ref: JobRef, *, grace_seconds: float | None = None) -> JobState:
        """Ask for a save and a stop; the supervisor kills what has not stopped after the grace."""
        run = self.folder(ref)
        grace = grace_seconds if grace_seconds is not None else _grace_of(run)
        supervisor = self._live_supervisor(run, grace)
        if supervisor is None:
            return self._cancel_dead(run)
        _request_cancel(run, grace_seconds)
        send(supervisor, signal.SIGTERM)
        if not _until(lambda: liveness(supervisor) != "alive", grace + _SLACK_SECONDS):
            send(supervisor, signal.SIGKILL)  # stopped or stuck; its watcher ends the rest
            _until(lambda: liveness(supervisor) != "alive", _SLACK_SECONDS)
        return state_of(look(run))

    def _cancel_dead(self, run: RunFolder) -> JobState:
        """Nobody supervises the run, and nothing of it is left: write that it is over."""
        state = state_of(look(run))
        record = records.read_record(run)
        if record is None or record.ended is not None or liveness(record.supervisor) == "elsewhere":
            return state
        lock = records.take_lock(run)
        if lock is None:
            return state
        with _held(lock), _writing(run):
            records.write_record(run, replace(record, ended="cancelled", phase="CANCELLED", since=time.time()))
        return state_of(look(run))

    def _live_supervisor(self, run: RunFolder, grace_seconds: float) -> ProcessId | None:
        """The supervisor's identity; None when there is none. Waits out the moment of a start.

        What a dead supervisor has left is ended at once: also by its watcher, but perhaps with more patience.
        """
        for _ in range(int(_SLACK_SECONDS / 0.1)):
            seen = look(run)
            if seen.alive == "alive":
                return seen.supervisor
            if seen.alive == "elsewhere":
                host = seen.supervisor.host if seen.supervisor else "another machine"
                raise AnswerNo(f"{run.run_id} was started on {host}", "cancel it there")
            if seen.record is not None and seen.alive == "dead":
                end_marked(seen.record.mark, grace_seconds)
            if not run.lock.exists() or not os.access(run.lock, os.W_OK):
                return None
            lock = records.take_lock(run)
            if lock is not None:
                os.close(lock)
                return None
            time.sleep(0.1)
        return None

    def _claim_new(self, place: Path, base: str) -> tuple[RunFolder, int]:
        """Lock a folder that has never been started, under the next free name."""
        for _ in range(10_000):
            started = {name for name in names(place) if (place / name / "job.json").exists()}
            run = RunFolder(place / identity.fresh(base, started))
            _make(run)
            lock = records.take_lock(run)
            if lock is not None and not run.job_file.exists():
                return run, lock
            if lock is not None:
                os.close(lock)
            time.sleep(0.05)  # somebody else is starting it
        raise SystemUnreachable(f"no free name for a fresh {base} in {place}", "remove old runs")

    def _claim(self, run: RunFolder, again: bool = False) -> int | None:
        """Lock a run that is to be started; None when there is nothing to start: it lives, or it is finished.

        ``again`` also takes a finished one.
        """
        if _needs_nothing(run, again):
            return None
        _make(run)
        wait = _settings(run).grace_seconds + _SLACK_SECONDS if _is_rendered(run) else _SLACK_SECONDS
        deadline = time.monotonic() + wait
        while (lock := records.take_lock(run)) is None:
            if _needs_nothing(run, again):
                return None
            if time.monotonic() > deadline:
                what = f"{run.run_id} is held by processes that are still ending"
                raise AnswerNo(what, f"try again; trainwright cancel {run.run_id} --now kills them")
            time.sleep(0.1)
        if _needs_nothing(run, again):  # it came to its end while we waited for the lock
            os.close(lock)
            return None
        record = records.read_record(run)
        if record is not None and record.ended is None and liveness(record.supervisor) == "elsewhere":
            os.close(lock)
            what = f"{run.run_id} was started on {record.supervisor.host}, and whether it lives is known only there"
            raise AnswerNo(what, f"cancel it there; if that machine is gone for good, remove {run.job_file}")
        return lock

    def _start(self, run: RunFolder, lock: int, bundle: Bundle | None) -> JobRef:
        """Write the bundle if one is given, and start the supervisor, which takes over the lock."""
        with _writing(run):
            if bundle is not None:
                _install(run, bundle)
            run.logs.mkdir(exist_ok=True)
            log = run.supervisor_log.open("ab")
        with log:
            _spawn(run, lock, log.fileno())
        return self.ref(run)


def _needs_nothing(run: RunFolder, again: bool) -> bool:
    """True for a live run, and for a finished one that is not wanted again. Only reads."""
    record = records.read_record(run)
    if record is None:  # never started, or its books are damaged: then the lock says who holds it
        signature = records.read_signature(run)
        return signature is not None and liveness(signature[0]) == "alive"
    if record.ended is None:
        return liveness(record.supervisor) == "alive"
    return record.ended == "finished" and not again


def _spawn(run: RunFolder, lock: int, log: int) -> None:
    """Start the supervisor in a session of its own and wait for its word that it stands."""
    reader, writer = os.pipe()
    try:
        module = [sys.executable, "-P", "-m", "trainwright.targets.local.supervisor", str(run.root)]
        starter = subprocess.Popen(
            [*module, "--lock", str(lock), "--ready", str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean(os.environ),
            pass_fds=(lock, writer),
            start_new_session=True,
        )
        os.close(writer)
        writer = -1
        said = _read_answer(reader)
        starter.wait()
    finally:
        os.close(reader)
        if writer >= 0:
            os.close(writer)
    if said.get("ok"):
        return
    why = str(said.get("error") or _last_line(run.supervisor_log) or "it said nothing")
    raise SystemUnreachable(f"the supervisor of {run.run_id} did not start: {why}", f"see {run.supervisor_log}")


def _read_answer(reader: int) -> dict[str, Any]:
    text, deadline = b"", time.monotonic() + _START_SECONDS
    while select.select([reader], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(reader, 65536)
        if not piece:
            break
        text += piece
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _install(run: RunFolder, bundle: Bundle) -> None:
    """Put a bundle into the run's folder; the spec comes last and makes it a run."""
    replace(bundle, run_id=run.run_id).write(run.bundle)
    texts = {file.path: file.text for file in bundle.files}
    for path in (run.plan_file, run.spec_file):
        write_atomically(path, texts[path.name])


def _read_bundle(folder: Path) -> Bundle:
    """Read and check a bundle; InputError for a damaged one and for another target's."""
    bundle = read_for(folder, Local.name)
    Settings.read(folder / NAME)
    return bundle


def _is_rendered(run: RunFolder) -> bool:
    """True when spec, plan and bundle of the run can be read, so that nothing needs to be written again."""
    try:
        run.spec(), run.plan(), _settings(run)
    except TrainwrightError:
        return False
    return True


def _settings(run: RunFolder) -> Settings:
    return Settings.read(run.bundle / NAME)


def _grace_of(run: RunFolder) -> float:
    """The run's own grace, or the usual one for a damaged bundle: whatever lives can be stopped."""
    try:
        return _settings(run).grace_seconds
    except InputError:
        return Settings(()).grace_seconds


def _runs_folder(bundle: Path, run_id: str, spec: RunSpec, runs: Path | None) -> Path:
    """Where the run's folder stands: around the bundle, as asked, in the spec's storage, or the default."""
    if (asked := asked_for(bundle, run_id, runs)) is not None:
        return asked
    if spec.storage is None:
        return default_runs()
    if is_remote(spec.storage) or not os.path.isabs(spec.storage):
        what = f"is {spec.storage}, but target local keeps runs in a folder"
        raise InputError([Problem("", field="storage", what=what, instead="name a folder, or leave it out")])
    return Path(spec.storage)


def _make(run: RunFolder) -> None:
    try:
        run.root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise records.unwritable(run.root.parent, error) from error


@contextlib.contextmanager
def _writing(run: RunFolder) -> Iterator[None]:
    """Turn a disk that is full or read-only into a sentence."""
    try:
        yield
    except OSError as error:
        raise records.unwritable(run.root, error) from error


@contextlib.contextmanager
def _held(lock: int) -> Iterator[None]:
    """Let our hold on the lock go at the end; a supervisor that has inherited it keeps its own."""
    try:
        yield
    finally:
        os.close(lock)


def _request_cancel(run: RunFolder, grace_seconds: float | None) -> None:
    """Leave word that a user wants this, with the grace asked for. An empty file says it too, on a full disk."""
    text = json.dumps({} if grace_seconds is None else {"grace_seconds": grace_seconds}) + "\n"
    try:
        write_atomically(run.cancel_request, text)
    except OSError:
        try:
            run.cancel_request.touch()
        except OSError as error:
            raise records.unwritable(run.root, error) from error


def _until(condition: Any, seconds: float) -> bool:
    """Wait for a condition, looking ever less often; False when the time is up."""
    deadline, wait = time.monotonic() + seconds, 0.02
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(wait)
        wait = min(wait * 1.5, 0.5)
    return True


def _last_line(path: Path) -> str:
    try:
        lines = path.read_bytes()[-4096:].decode(errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
