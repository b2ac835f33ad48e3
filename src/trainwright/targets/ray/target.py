"""The Ray target: a run as a job of a Ray that is already there, by its Jobs API.

One job runs all stages; what it tells in its log says where it stands, so that a client needs none of the storage
that Ray's nodes share. Where it has that storage at the same path, the run's folder is the client's, too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem
from trainwright.planner.plan import Plan
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, default_runs, write_atomically
from trainwright.runs.state import JobRef, JobState
from trainwright.runs.steps import saved_step
from trainwright.spec.load import load_site, read_resolved
from trainwright.spec.model import RunSpec
from trainwright.spec.site import RaySite, Site
from trainwright.targets.bundle import SITE, Bundle, read_for
from trainwright.targets.contract import LogLine
from trainwright.targets.doctor import Check
from trainwright.targets.hold import locked, not_submitted, stays_as_it_is, writing
from trainwright.targets.logs import follow_logs, read_logs
from trainwright.targets.place import asked_for, last_attempt, names, run_of
from trainwright.targets.ray import doctor, mirror, telling
from trainwright.targets.ray.api import Jobs, address_of
from trainwright.targets.ray.record import JobRecord, read_record, write_record
from trainwright.targets.ray.render import REQUEST, RUN, demand, render
from trainwright.targets.ray.state import Snapshot, state_of, waits

_SCHEME = "ray"
_PAUSE_SECONDS = 0.5
_MARGIN_SECONDS = 20.0  # after the grace: Ray's own time
_LIVE = ("PENDING", "RUNNING")


class RayTarget:
    """Runs on a running Ray. ``jobs`` stands in for it in tests."""

    name = "ray"

    def __init__(self, jobs: Callable[[str], Jobs] = Jobs, pause: Callable[[float], object] = time.sleep):
        self._jobs = jobs
        self._pause = pause

    def render(self, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str]) -> Bundle:
        """The request that starts the job, the resolved spec and the plan."""
        return render(plan, spec, site, versions)

    def doctor(self, bundle: Bundle | None, site: Site) -> list[Check]:
        """What Ray has and lacks for a run, or at all."""
        address = address_of((site.ray or RaySite()).address)
        return doctor.examine(self._jobs(address), _request(bundle) if bundle is not None else None)

    def submit(self, bundle: Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
        """Start the job of a bundle; see ``Target.submit``. Equal content has equal names: two submits are one."""
        rendered = read_for(bundle, self.name)
        place = _runs_folder(bundle, rendered, runs)
        run = run_of(place, rendered.run_id, fresh=fresh)
        with locked(run):
            record = read_record(run)
            if record is not None and fresh:  # another submit of the same content was faster: take the next name
                return self.submit(bundle, fresh=True, runs=runs)
            if record is not None:
                state = self._state(run, record)
                if not state.final or state.phase == "SUCCEEDED":
                    return self.ref(run)
            self._start(run, _named(rendered, bundle, run.run_id), record)
        return self.ref(run)

    def resume(self, ref: JobRef, bundle: Path | None = None) -> JobRef:
        """Start another job that goes on from the newest checkpoint; see ``Target.resume``."""
        run = self.folder(ref)
        edited = read_for(bundle, self.name) if bundle is not None else None
        with locked(run):
            record = read_record(run)
            state = self._state(run, record) if record is not None else None
            if stays_as_it_is(run, state, edited=edited is not None):
                return ref
            rendered = _named(edited, bundle, run.run_id) if edited and bundle else read_for(run.bundle, self.name)
            self._start(run, rendered, record)
        return self.ref(run)

    def ref(self, folder: RunFolder) -> JobRef:
        """``ray://<dashboard>/<job>``; a run outside the default folder names its folder as well."""
        record = read_record(folder)
        parts = (record.address, record.job) if record is not None else ("ray", "unsubmitted")
        usual = folder.root.parent == default_runs() and record is not None
        return JobRef(_SCHEME, parts if usual else (*parts, str(folder.root.absolute())))

    def folder(self, ref: JobRef) -> RunFolder:
        """The run's folder; InputError when the reference names none."""
        if ref.scheme == _SCHEME and len(ref.parts) == 3 and Path(ref.parts[2]).is_dir():
            return RunFolder(Path(ref.parts[2]))
        if ref.scheme == _SCHEME and len(ref.parts) == 2:
            for name in names(default_runs()):
                record = read_record(RunFolder(default_runs() / name))
                if record is not None and record.address == ref.parts[0] and ref.parts[1] in record.jobs:
                    return RunFolder(default_runs() / name)
        raise InputError([Problem(str(ref), what="names no run here", instead="`trainwright ls` lists the runs")])

    def status(self, ref: JobRef) -> JobState:
        """See ``state.state_of``."""
        run = self.folder(ref)
        record = read_record(run)
        return self._state(run, record) if record is not None else not_submitted(run, _SCHEME)

    def statuses(self, refs: Sequence[JobRef]) -> list[JobState]:
        """The state of many runs with one list of jobs a Ray, and the log of those that have not ended."""
        known: dict[str, dict[str, dict[str, Any]]] = {}
        states: list[JobState] = []
        for ref in refs:
            run = self.folder(ref)
            record = read_record(run)
            if record is None:
                states.append(not_submitted(run, _SCHEME))
                continue
            if record.final is None and record.address not in known:
                listed = self._jobs(record.address).jobs()
                known[record.address] = {str(job["submission_id"]): job for job in listed}
            states.append(self._state(run, record, known.get(record.address)))
        return states

    def events(self, ref: JobRef) -> list[dict[str, Any]]:
        """Events of ranks and launchers in order of time, where this machine has the run's storage."""
        return read_events(self.folder(ref).events)

    def logs(self, ref: JobRef, *, rank: int | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of the stages and ranks of every attempt; see ``Target.logs``."""
        run = self.folder(ref)
        if follow:
            return follow_logs(run, rank, done=lambda: self.status(ref).final, pause=self._pause)
        self.status(ref)
        return read_logs(run, rank)

    def cancel(self, ref: JobRef, *, grace_seconds: float | None = None) -> JobState:
        """Stop the job: its driver asks all nodes to save, and Ray kills it after the grace of the plan.

        A shorter grace is kept where this machine has the run's storage.
        """
        run = self.folder(ref)
        record = read_record(run)
        if record is None:
            return not_submitted(run, _SCHEME)
        with locked(run):
            state = self._state(run, record)
            if state.final:
                return state
            with writing(run):
                wish = {} if grace_seconds is None else {"grace_seconds": grace_seconds}
                write_atomically(run.cancel_request, json.dumps(wish) + "\n")
            jobs = self._jobs(record.address)
            jobs.stop(record.job)
            end = time.monotonic() + _grace(read_for(run.bundle, self.name)) + _MARGIN_SECONDS
            while time.monotonic() < end:
                job = jobs.job(record.job)
                if job is None or str(job.get("status")) not in _LIVE:
                    break
                self._pause(_PAUSE_SECONDS)
            return self._state(run, record)

    def _start(self, run: RunFolder, rendered: Bundle, before: JobRecord | None) -> None:
        """Write the bundle and start its job. The run must be locked."""
        address = address_of(rendered.where.get("address"))
        jobs = self._jobs(address)
        mine = [job for job in jobs.jobs() if (job.get("metadata") or {}).get(RUN) == rendered.run_id]
        ids = [*(before.jobs if before else ()), *(str(job["submission_id"]) for job in mine)]
        live = [str(job["submission_id"]) for job in mine if str(job.get("status")) in _LIVE]
        texts = {file.path: file.text for file in rendered.files}
        with writing(run):
            run.cancel_request.unlink(missing_ok=True)
            for folder in (run.events, run.logs):
                folder.mkdir(parents=True, exist_ok=True)
            rendered.write(run.bundle)
            for path in (run.root / SITE, run.plan_file, run.spec_file):
                write_atomically(path, texts[path.name])
        number = max((int(id_.rpartition("-")[2]) for id_ in ids if id_.rpartition("-")[2].isdigit()), default=0)
        id_ = live[-1] if live else f"{rendered.run_id}-{number + 1}"
        if not live:
            files = {name: texts[name] for name in (run.spec_file.name, run.plan_file.name)}
            jobs.submit({**_request(rendered), "submission_id": id_}, files)
        reached = before.final.attempt if before and before.final else 0
        attempt = max(last_attempt(run, read_events(run.events)), reached) + 1
        kept = tuple(dict.fromkeys([*(before.jobs if before else ()), id_]))
        with writing(run):
            write_record(run, JobRecord(address, kept, rendered.where["run_dir"], 1 if before is None else attempt))

    def _state(
        self, run: RunFolder, record: JobRecord, known: Mapping[str, Mapping[str, Any]] | None = None
    ) -> JobState:
        if record.final is not None:
            return record.final
        jobs = self._jobs(record.address)
        job = known.get(record.job) if known is not None else jobs.job(record.job)
        told = telling.read(jobs.log(record.job) if job is not None else "", record.first_attempt)
        shared = str(run.root) == record.run_dir
        if not shared:
            with writing(run):
                mirror.write(run, told, record.job)
        ended = [int(end.get("attempt") or 0) for end in told.ends]
        here = [saved_step(run)] if shared else []
        seen = Snapshot(
            run.run_id, record.address, job, told,
            attempt=max([told.attempt, *ended, *([last_attempt(run, read_events(run.events))] if shared else [])]),
            cancelled=run.cancel_request.exists(),
            saved=max((step for step in (told.saved, *here) if step is not None), default=None),
        )  # fmt: skip
        if waits(seen):
            asked = demand(_request(read_for(run.bundle, self.name)), told.stage or "train")
            seen = replace(seen, nodes=jobs.nodes(), demand=asked)
        state = state_of(seen)
        if state.final:
            with writing(run):
                write_record(run, replace(record, final=state))
        return state


def _request(bundle: Bundle) -> dict[str, Any]:
    text = next(file.text for file in bundle.files if file.path == REQUEST)
    found: dict[str, Any] = json.loads(text)
    return found


def _grace(bundle: Bundle) -> float:
    return float(_request(bundle)["runtime_env"]["env_vars"]["RAY_JOB_STOP_WAIT_TIME_S"])


def _named(rendered: Bundle, bundle: Path, run_id: str) -> Bundle:
    """The same content under another name: rendered anew for ``x.2``."""
    if rendered.run_id == run_id:
        return rendered
    spec, plan = read_resolved(bundle / "spec.yaml"), Plan.read(bundle / "plan.json")
    return render(plan, spec, load_site(bundle / SITE), rendered.versions, run_id)


def _runs_folder(bundle: Path, rendered: Bundle, runs: Path | None) -> Path:
    """Around the bundle, as asked, the nodes' storage when it is here, or the default."""
    if (asked := asked_for(bundle, rendered.run_id, runs)) is not None:
        return asked
    shared = Path(rendered.where["run_dir"]).parent
    # what another user has made, Ray's nodes run as: they could not write into a folder of ours
    ours = shared.is_dir() and shared.stat().st_uid == os.geteuid() and os.access(shared, os.W_OK)
    return shared if ours else default_runs()
