"""The Slurm target: renders one sbatch file a stage, submits them as a chain, and answers for the run afterwards.

It keeps nothing in memory that matters: what was submitted is in ``job.json``, what happened in the run's folder,
how it stands Slurm knows. The run's folder lies on storage that all nodes share; over ssh the client has a copy.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainwright.errors import InputError, Problem, SystemUnreachable, TrainwrightError
from trainwright.facts.versions import choose
from trainwright.planner.plan import Plan
from trainwright.runs import identity
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, default_runs, write_atomically
from trainwright.runs.state import JobRef, JobState
from trainwright.spec.load import read_resolved
from trainwright.spec.model import RunSpec
from trainwright.spec.site import Site, SlurmSite
from trainwright.targets.bundle import SITE, Bundle, BundleFile, carried, carried_site, read_for
from trainwright.targets.contract import LogLine
from trainwright.targets.doctor import Check
from trainwright.targets.hold import locked, not_submitted, stays_as_it_is, writing
from trainwright.targets.local.environment import resolve_secrets
from trainwright.targets.logs import follow_logs, read_logs
from trainwright.targets.place import last_attempt, names, run_of
from trainwright.targets.slurm import mirror
from trainwright.targets.slurm.between import FIRST_ATTEMPT_VARIABLE, history_of, often
from trainwright.targets.slurm.place import check_storage, runs_folder
from trainwright.targets.slurm.queue import Queue
from trainwright.targets.slurm.record import (
    MAIN,
    STAGES,
    JobRecord,
    Submission,
    current_jobs,
    read_record,
    sound_events,
    write_record,
)
from trainwright.targets.slurm.state import look, state_of
from trainwright.targets.slurm.transport import over_rest
from trainwright.targets.slurm.watch import Watch, watch_for

_SCHEME = "slurm"
_GRACE_SECONDS = 120.0
_PULL_SECONDS = 2.0  # between two looks at a folder over ssh


class Slurm:
    """A Slurm cluster, reached as ``slurm.login`` says. ``watch`` replaces the shared view of its queue in tests."""

    name = "slurm"

    def __init__(self, watch: Watch | None = None):
        self._given = watch

    def render(self, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str]) -> Bundle:
        """One sbatch file a stage, the resolved spec and the plan."""
        from trainwright.targets.slurm.render import scripts  # with its facts: no other verb reads them
        from trainwright.targets.slurm.script import STEPS, steps_file

        slurm = site.slurm or SlurmSite()
        version = choose("slurm", versions.get("slurm") or slurm.version)
        check_storage(spec, slurm.login)
        run_id = identity.run_id(spec, plan.layout, {"slurm": version})
        texts = scripts(run_id, plan, spec, site, version)
        files = [BundleFile(f"{stage}.sbatch", text, order) for order, (stage, text) in enumerate(texts.items(), 1)]
        where = {"cluster": slurm.cluster, "login": slurm.login, "partition": slurm.partition}
        return Bundle(
            run_id=run_id,
            target=self.name,
            versions={"slurm": version},
            where={name: value for name, value in where.items() if value is not None},
            files=(*files, BundleFile(STEPS, steps_file()), carried_site(site), *carried(spec, plan)),
            command=("python3", "-P", "-m", "trainwright", "train", "$TRAINWRIGHT_RUN_DIR"),
        )

    def check(self, bundle: Path) -> list[str]:
        """Let Slurm check every script and queue nothing; what it says to each. Raises what it refuses."""
        rendered = read_for(bundle, self.name)
        client = self._watch(rendered.where.get("login")).client
        scripts = sorted((file for file in rendered.files if file.apply_order), key=lambda file: file.apply_order)
        return [f"{file.path}: {client.try_out(file.text, name=file.path)}" for file in scripts]

    def doctor(self, bundle: Bundle | None, site: Site) -> list[Check]:
        """What this Slurm has and lacks for a run, or at all."""
        from trainwright.targets.slurm.doctor import examine

        scripts = {file.path: file.text for file in bundle.files if file.apply_order} if bundle is not None else {}
        slurm = site.slurm or SlurmSite()
        return examine(self._watch(slurm.login).client, scripts, slurm)

    def submit(self, bundle: Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
        """Queue the chain of a bundle; see ``Target.submit``. Of two at once, the second finds the first's jobs."""
        rendered = read_for(bundle, self.name)
        spec = read_resolved(bundle / "spec.yaml")
        login = rendered.where.get("login")
        if login is None or over_rest(login):
            resolve_secrets(spec, os.environ)  # the job gets this shell's variables
        place = runs_folder(bundle, rendered.run_id, spec, runs, login)
        run = run_of(place, rendered.run_id, fresh=fresh)
        with locked(run):
            record = read_record(run)
            if record is not None and fresh:  # another submit of the same content was faster: take the next name
                return self.submit(bundle, fresh=True, runs=runs)
            if record is not None:
                state = self._state(run, record)
                if not state.final or state.phase == "SUCCEEDED":
                    return self.ref(run)
            # the same run, but the site may have changed: another partition, another account
            return self._start(run, spec, rendered, record)

    def resume(self, ref: JobRef, bundle: Path | None = None) -> JobRef:
        """Queue an unfinished run again; with a bundle also a finished one, by the edited spec in it."""
        run = self.folder(ref)
        edited = read_for(bundle, self.name) if bundle is not None else None
        spec = run.spec() if bundle is None else read_resolved(bundle / "spec.yaml")
        with locked(run):
            record = read_record(run)
            state = self._state(run, record) if record is not None else None
            if stays_as_it_is(run, state, edited=edited is not None):
                return ref
            return self._start(run, spec, edited or read_for(run.bundle, self.name), record, again=edited is not None)

    def ref(self, folder: RunFolder) -> JobRef:
        """``slurm://<cluster>/<training job>``; a run outside the default folder names its folder as well."""
        record = read_record(folder)
        parts = (record.cluster, record.main) if record is not None else ("slurm", "unsubmitted")
        usual = folder.root.parent == default_runs() and record is not None
        return JobRef(_SCHEME, parts if usual else (*parts, str(folder.root.absolute())))

    def folder(self, ref: JobRef) -> RunFolder:
        """The run's folder; InputError when the reference names none."""
        if ref.scheme == _SCHEME and len(ref.parts) == 3 and Path(ref.parts[2]).is_dir():
            return RunFolder(Path(ref.parts[2]))
        if ref.scheme == _SCHEME and len(ref.parts) == 2:
            for name in names(default_runs()):
                run = RunFolder(default_runs() / name)
                record = read_record(run)
                if record is not None and any(ref.parts[1] in s.jobs.values() for s in record.submissions):
                    return run
        raise InputError([Problem(str(ref), what="names no run here", instead="`trainwright ls` lists the runs")])

    def status(self, ref: JobRef) -> JobState:
        """See ``state.state_of``. SystemUnreachable when Slurm does not answer for longer than a restart takes."""
        return self.statuses([ref])[0]

    def statuses(self, refs: Sequence[JobRef]) -> list[JobState]:
        """The state of many runs with one query a cluster."""
        found = [(run := self.folder(ref), read_record(run)) for ref in refs]
        if len(found) > 1:
            self._look_at_all(found)
        return [
            self._state(run, record) if record is not None else not_submitted(run, _SCHEME) for run, record in found
        ]

    def _look_at_all(self, runs: Sequence[tuple[RunFolder, JobRecord | None]]) -> None:
        """Ask once for the jobs of all runs, so that no run needs a query of its own."""
        ids: dict[str | None, list[str]] = {}
        for run, record in runs:
            if record is not None:
                ids.setdefault(record.login, []).extend(current_jobs(record, sound_events(run)).values())
        for login, wanted in ids.items():
            self._watch(login).jobs(wanted)

    def events(self, ref: JobRef) -> list[dict[str, Any]]:
        """Events of all ranks and of the batch scripts in order of time."""
        run = self.folder(ref)
        self._pull(run, read_record(run))
        return read_events(run.events)

    def logs(self, ref: JobRef, *, rank: int | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of the stages and ranks of every attempt; see ``Target.logs``. They outlive the jobs."""
        run = self.folder(ref)
        if follow:
            return follow_logs(run, rank, done=lambda: self.status(ref).final)
        self._pull(run, read_record(run))
        return read_logs(run, rank)

    def cancel(self, ref: JobRef, *, grace_seconds: float | None = None) -> JobState:
        """Take what waits out of the queue, let what runs save and stop, and end it after the grace."""
        run = self.folder(ref)
        record = read_record(run)
        if record is None:
            return not_submitted(run, _SCHEME)
        state = self._state(run, record, fresh=True)
        if state.final:
            return state
        grace = _GRACE_SECONDS if grace_seconds is None else grace_seconds
        with writing(run):
            write_atomically(run.cancel_request, "{}\n")
        if record.mirrored:
            mirror.push(self._client(record).transport, record.folder, {"cancel.json": "{}\n"})
        client, watch = self._client(record), self._watch(record.login)
        ids = [*current_jobs(record, sound_events(run)).values()]
        watch.forget(ids)
        jobs = [job for job in watch.jobs(ids).values() if job is not None and not job.final]
        waiting = [job.id for job in jobs if job.state == "PENDING"]
        running = [job.id for job in jobs if job.state != "PENDING"]
        if waiting:
            client.cancel(waiting)
        if running and grace > 0:
            client.stop(running)
            self._wait(watch, running, grace)
        left = [job.id for job in client.jobs(ids).values() if not job.final]
        if left:
            client.cancel(left)
            self._wait(watch, left, 60.0)
        return self._state(run, record, fresh=True)

    def _wait(self, watch: Watch, ids: Sequence[str], seconds: float) -> None:
        """Until every job has ended or the time is up."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(job is not None and not job.final for job in watch.jobs(ids).values()):
            time.sleep(0.5)

    def _start(
        self, run: RunFolder, spec: RunSpec, rendered: Bundle, before: JobRecord | None, again: bool = False
    ) -> JobRef:
        """Write the bundle and queue what is left of the chain, or all of it ``again``. The run must be locked."""
        login = rendered.where.get("login")
        client = self._watch(login).client.anew()
        folder = f"{spec.storage}/{run.run_id}" if login and not over_rest(login) else str(run.root.absolute())
        record = before or JobRecord(rendered.where.get("cluster") or client.cluster(), login, folder, os.getcwd())
        stages = [Path(f.path).stem for f in sorted(rendered.files, key=lambda f: f.apply_order) if f.apply_order]
        self._install(run, client, record, rendered)
        events = sound_events(run)
        adopted = self._adopt(client, run, stages, known={i for s in record.submissions for i in s.jobs.values()})
        exclude = tuple(often(end for stage in (*STAGES, "report") for end in history_of(events, stage)))
        begun = [e["attempt"] for e in events if e.get("job") in adopted.values()]
        submission = Submission(time.time(), adopted, min(begun, default=last_attempt(run, events) + 1), exclude)
        if not adopted:
            done = {} if again else self._completed(run, record, before)
            jobs = self._chain(client, run, record, submission, [s for s in stages if s not in done])
            submission = replace(submission, jobs={**done, **jobs})
        with writing(run):
            write_record(run, record.with_submission(submission))
        return self.ref(run)

    def _install(self, run: RunFolder, client: Queue, record: JobRecord, bundle: Bundle) -> None:
        """Put a bundle into the run's folder, here and where the nodes see it."""
        with writing(run):
            run.cancel_request.unlink(missing_ok=True)
            run.events.mkdir(exist_ok=True)
            run.logs.mkdir(exist_ok=True)  # without it a job ends at once, and leaves no word why
            texts = {file.path: file.text for file in bundle.files}
            replace(bundle, run_id=run.run_id).write(run.bundle)
            # the site lies beside the spec, where a later `resume --set` looks for it
            for path in (run.root / SITE, run.plan_file, run.spec_file):
                write_atomically(path, texts[path.name])
        if record.mirrored:
            mirror.remove(client.transport, record.folder, run.cancel_request.name)
            files = {f"bundle/{file.path}": file.text for file in read_for(run.bundle, self.name).files}
            files |= {path.name: path.read_text() for path in (run.plan_file, run.spec_file)}
            mirror.push(client.transport, record.folder, files)

    def _adopt(self, client: Queue, run: RunFolder, stages: Sequence[str], known: set[str]) -> dict[str, str]:
        """Jobs of this run that are queued although no record names them: whoever submitted them was killed."""
        names = {f"{run.run_id}.{stage}": stage for stage in stages}
        found = {names[job.name]: job.id for job in client.named(names) if job.name in names and job.id not in known}
        if found and set(found) != set(stages):
            client.cancel(found.values())
            return {}
        return {stage: found[stage] for stage in stages if stage in found}

    def _completed(self, run: RunFolder, record: JobRecord, before: JobRecord | None) -> dict[str, str]:
        """Stages that need not run again, and their jobs. Data is always checked again, unless training is done."""
        if before is None:
            return {}
        events = sound_events(run)
        jobs = current_jobs(record, events)
        known = self._watch(record.login).jobs(jobs.values())
        training = known.get(jobs[MAIN])
        trained = training is not None and training.state == "COMPLETED"
        later = any(e.get("kind") == "started" and e.get("stage") in ("finish", "report") for e in events)
        return {stage: id_ for stage, id_ in jobs.items() if stage != "finish"} if trained or later else {}

    def _chain(
        self, client: Queue, run: RunFolder, record: JobRecord, submission: Submission, stages: Sequence[str]
    ) -> dict[str, str]:
        """Queue stages, each after the one before. When one is refused, nothing stays queued."""
        environment = {FIRST_ATTEMPT_VARIABLE: str(submission.attempt)}
        if not record.mirrored:
            environment["TRAINWRIGHT_PYTHON"] = sys.executable
        jobs: dict[str, str] = {}
        before: str | None = None
        for stage in stages:
            name = f"{run.run_id}.{stage}"
            # singleton: never two trainings in one folder, whatever else goes wrong
            dependency = ",".join(
                [*([f"afterok:{before}"] if before else []), *(["singleton"] if stage == MAIN else [])]
            )
            try:
                before = client.submit(
                    f"{record.folder}/bundle/{stage}.sbatch", folder=record.folder, name=name,
                    dependency=dependency or None, exclude=submission.exclude, environment=environment,
                    cwd=record.cwd,
                )  # fmt: skip
            except TrainwrightError as error:
                before = self._answer_lost(client, name, error)
                if before is None:
                    _take_back(client, jobs, error)
                    raise
            jobs[stage] = before
        return jobs

    def _answer_lost(self, client: Queue, name: str, error: TrainwrightError) -> str | None:
        """The job's id when sbatch was heard although its answer was not; None when nothing was queued."""
        if not isinstance(error, SystemUnreachable):
            return None
        try:
            found = client.named([name])
        except SystemUnreachable:
            return None
        return max((job.id for job in found), key=int, default=None)

    def _state(self, run: RunFolder, record: JobRecord, fresh: bool = False) -> JobState:
        self._pull(run, record)
        watch = self._watch(record.login)
        if fresh:
            watch.forget(current_jobs(record, sound_events(run)).values())
        state = self._judged(run, record, watch)
        if state.final and record.mirrored and watch.due(f"end of {record.main} in {run.root}", math.inf):
            mirror.pull(self._client(record).transport, record.folder, run.root)  # its last words
            state = self._judged(run, record, watch)
        return state

    def _judged(self, run: RunFolder, record: JobRecord, watch: Watch) -> JobState:
        events = sound_events(run)
        ids = current_jobs(record, events)
        known = watch.jobs(ids.values())
        return state_of(look(run, {stage: known[id_] for stage, id_ in ids.items()}, events, record.latest.attempt))

    def _pull(self, run: RunFolder, record: JobRecord | None) -> None:
        if record is not None and record.mirrored and self._watch(record.login).due(str(run.root), _PULL_SECONDS):
            mirror.pull(self._client(record).transport, record.folder, run.root)

    def _watch(self, login: str | None) -> Watch:
        return self._given or watch_for(login)

    def _client(self, record: JobRecord) -> Queue:
        return self._watch(record.login).client


def _take_back(client: Queue, jobs: Mapping[str, str], error: TrainwrightError) -> None:
    """Cancel the part of a chain that was queued; where that fails too, the error that is raised names it."""
    try:
        client.cancel(jobs.values())
    except SystemUnreachable:
        left = " ".join(jobs.values())
        what = f"{error}; queued already, and not cancelled: {left}"
        raise SystemUnreachable(what, f"submit again once it answers, or: scancel {left}") from error
