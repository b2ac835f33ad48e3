"""The Kubernetes targets: a class for every kind of training job over one way to submit, watch, cancel and resume.

A run's objects carry its name; what was submitted is in ``job.json``, how it stands the cluster knows, and logs, pods
and events are copied into the client's folder before the cluster forgets them. Stages of kinds that cannot chain them
themselves are applied one after the other by whoever looks at the run.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainwright.errors import AnswerNo, InputError, Problem, TrainwrightError
from trainwright.planner.plan import Plan
from trainwright.runs.events import read_events
from trainwright.runs.folder import RunFolder, default_runs, write_atomically
from trainwright.runs.state import JobRef, JobState, Reason
from trainwright.spec.load import read_resolved
from trainwright.spec.model import RunSpec
from trainwright.spec.site import KubernetesSite, Site
from trainwright.targets import REGISTRY
from trainwright.targets.bundle import SITE, Bundle
from trainwright.targets.contract import LogLine
from trainwright.targets.doctor import Check
from trainwright.targets.hold import locked, not_submitted, stays_as_it_is, writing
from trainwright.targets.kubernetes import mirror, submission
from trainwright.targets.kubernetes.cluster import Cluster
from trainwright.targets.kubernetes.ending import clear, until_gone
from trainwright.targets.kubernetes.look import History, Looked, look
from trainwright.targets.kubernetes.needs import needs_of, users_of
from trainwright.targets.kubernetes.outcome import forwards
from trainwright.targets.kubernetes.place import runs_folder
from trainwright.targets.kubernetes.record import JobRecord, node_price, read_record, wanted, write_record
from trainwright.targets.kubernetes.state import next_stage
from trainwright.targets.kubernetes.watch import Watch, watch_for
from trainwright.targets.logs import follow_logs, read_logs
from trainwright.targets.place import last_attempt, names, run_of

_SCHEME = "k8s"
_CLOCKS_APART = 30.0  # seconds between this machine's clock and the cluster's; nodes have events of long ago
_PULL_SECONDS = 2.0  # between two readings of the logs of running pods


class KubernetesTarget:
    """Runs of one kind. ``cluster`` stands in for the cluster of the user's kubeconfig in tests."""

    name = "job"
    kinds: tuple[tuple[str, str], ...] = (("batch/v1", "Job"),)  # apiVersion and kind of the training object

    def __init__(self, cluster: Cluster | None = None, pause: Callable[[float], object] = time.sleep):
        self._given = cluster
        self._pause = pause

    def render(self, plan: Plan, spec: RunSpec, site: Site, versions: Mapping[str, str]) -> Bundle:
        """The objects of a run as files, the resolved spec and the plan."""
        from trainwright.targets.kubernetes.render import render

        return render(self.name, plan, spec, site, versions)

    def check(self, bundle: Path) -> list[str]:
        """Let the API server check every object without effect; what it accepted, by name. Raises what it refuses."""
        rendered = self._read(bundle)
        objects = submission.objects_of(rendered)
        there = submission.check(self._cluster(rendered.where), objects)
        return [
            f"{one.file}: {one.kind}/{one.name} " + ("is there already" if number in there else "accepted")
            for number, one in enumerate(objects)
        ]

    def doctor(self, bundle: Bundle | None, site: Site) -> list[Check]:
        """What the cluster has and lacks for a run, or for this kind at all."""
        from trainwright.targets.kubernetes.doctor import examine

        place = site.kubernetes or KubernetesSite()
        where = bundle.where if bundle is not None else {"context": place.context, "namespace": place.namespace}
        objects = submission.objects_of(bundle) if bundle is not None else []
        return examine(self._cluster(where), needs_of(objects, self.kinds, place))

    def submit(self, bundle: Path, *, fresh: bool = False, runs: Path | None = None) -> JobRef:
        """Apply a bundle; see ``Target.submit``. Equal content has equal names, so two submits make one run."""
        rendered = self._read(bundle)
        user = next(iter(users_of(submission.objects_of(rendered))), -1)
        place = runs_folder(bundle, rendered.run_id, rendered.where.get("run_dir"), runs, user)
        run = run_of(place, rendered.run_id, fresh=fresh)
        with locked(run):
            record = read_record(run)
            if record is not None and fresh:  # another submit of the same content was faster: take the next name
                return self.submit(bundle, fresh=True, runs=runs)
            if record is not None:
                state = self._state(run, record, fresh=True)
                if not state.final or state.phase == "SUCCEEDED":
                    return self.ref(run)
            self._start(run, self._named(rendered, bundle, run.run_id), record)
            return self.ref(run)

    def resume(self, ref: JobRef, bundle: Path | None = None) -> JobRef:
        """Apply an unfinished run again; with a bundle also a finished one, by the edited spec in it."""
        run = self.folder(ref)
        edited = self._read(bundle) if bundle is not None else None
        with locked(run):
            record = read_record(run)
            state = self._state(run, record, fresh=True) if record is not None else None
            if stays_as_it_is(run, state, edited=edited is not None):
                return ref
            rendered = self._named(edited, bundle, run.run_id) if edited and bundle else self._read(run.bundle)
            self._start(run, rendered, record, again=edited is not None)
        return self.ref(run)

    def ref(self, folder: RunFolder) -> JobRef:
        """``k8s://<context>/<namespace>/<kind>/<name>``; outside the default folder the run's folder is added."""
        record = read_record(folder)
        if record is None:
            return JobRef(
                _SCHEME, ("unsubmitted", "unsubmitted", self.name, folder.run_id, str(folder.root.absolute()))
            )
        main = record.main
        parts = (record.context, record.namespace, main.kind, main.object_name)
        usual = folder.root.parent == default_runs()
        return JobRef(_SCHEME, parts if usual else (*parts, str(folder.root.absolute())))

    def folder(self, ref: JobRef) -> RunFolder:
        """The run's folder; InputError when the reference names none."""
        if ref.scheme == _SCHEME and len(ref.parts) == 5 and Path(ref.parts[4]).is_dir():
            return RunFolder(Path(ref.parts[4]))
        if ref.scheme == _SCHEME and len(ref.parts) == 4:
            for name in names(default_runs()):
                run = RunFolder(default_runs() / name)
                record = read_record(run)
                if record is not None and self.ref(run).parts[:4] == ref.parts:
                    return run
        raise InputError([Problem(str(ref), what="names no run here", instead="`trainwright ls` lists the runs")])

    def status(self, ref: JobRef) -> JobState:
        """See ``state.state_of``. SystemUnreachable when the API server is away for longer than a restart takes."""
        return self.statuses([ref])[0]

    def statuses(self, refs: Sequence[JobRef]) -> list[JobState]:
        """The state of many runs with a fixed number of lists for every namespace, however many runs there are."""
        found = [(run := self.folder(ref), read_record(run)) for ref in refs]
        if len(found) > 1:
            self._look_at_all(found)
        alone = len(found) == 1
        return [
            self._state(run, record, first=alone) if record is not None else not_submitted(run, _SCHEME)
            for run, record in found
        ]

    def hints(self, ref: JobRef) -> list[str]:
        """What else can be done with a run that lives: how to reach the dashboard of its Ray."""
        run = self.folder(ref)
        record = read_record(run)
        if record is None or record.final is not None or record.main.kind != "RayJob":
            return []
        watch = self._watch(self._cluster_of(record))
        objects = watch.look([wanted(record)])[record.name].objects.values()
        return [line for one in objects for line in forwards(one)]

    def events(self, ref: JobRef) -> list[dict[str, Any]]:
        """Events of ranks, launchers and the cluster about this run in order of time; they outlive its objects."""
        run = self.folder(ref)
        record = read_record(run)
        if record is not None and record.final is None:
            self._state(run, record)
        return read_events(run.events)

    def logs(self, ref: JobRef, *, rank: int | None = None, follow: bool = False) -> Iterator[LogLine]:
        """Lines of the stages and ranks of every attempt; see ``Target.logs``. They outlive the pods."""
        run = self.folder(ref)
        if follow:
            return follow_logs(run, rank, done=lambda: self._followed(run))
        record = read_record(run)
        if record is not None and record.final is None:
            self._state(run, record, pull=True)
        return read_logs(run, rank)

    def cancel(self, ref: JobRef, *, grace_seconds: float | None = None) -> JobState:
        """Delete the run's objects: its pods get SIGTERM, save and end, and are killed after their grace."""
        run = self.folder(ref)
        record = read_record(run)
        if record is None:
            return not_submitted(run, _SCHEME)
        with locked(run):
            state = self._state(run, record, fresh=True, pull=True)
            record = read_record(run) or record
            if state.final:
                return state
            with writing(run):
                write_atomically(run.cancel_request, "{}\n")
            objects = submission.objects_of(self._read(run.bundle))
            cluster = self._cluster_of(record)
            stages = [one for one in objects if one.stage != submission.CONFIG]
            for one in reversed(stages):
                submission.remove(cluster, one.object_)
            watch = self._watch(cluster)
            until_gone(
                watch, wanted(record), grace_seconds, self._pause, lambda: self._looked(run, record, watch, pull=True)
            )
            for one in submission.removable(objects):
                with contextlib.suppress(TrainwrightError):
                    submission.remove(cluster, one.object_)
            return self._state(run, read_record(run) or record, fresh=True)

    def _start(self, run: RunFolder, rendered: Bundle, before: JobRecord | None, again: bool = False) -> None:
        """Write the bundle and apply what is left of its stages, or all of them ``again``. The run must be locked."""
        cluster = self._cluster(rendered.where)
        objects = submission.objects_of(rendered)
        stages = submission.stages_of(objects)
        if not stages:
            raise InputError([Problem(str(run.bundle), what="holds no stage of a run", instead="render it again")])
        attempt = 1 if before is None else max(last_attempt(run, read_events(run.events)), before.reached) + 1
        kept = () if again or before is None else before.completed
        self._install(run, rendered)
        record = JobRecord(
            rendered.target, cluster.context, cluster.namespace, rendered.where.get("name") or stages[-1].object_name,
            stages, time.time(), attempt, kept, kept, None, node_price(run),
        )  # fmt: skip
        first = next(stage for stage in stages if stage.name not in kept)
        if before is not None:
            left = [one for one in objects if one.stage not in (*kept, submission.CONFIG)]
            clear(self._watch(cluster), wanted(record), left, self._pause)
        submission.apply(cluster, [*submission.of_stage(objects, None), *submission.of_stage(objects, first)])
        with writing(run):
            write_record(run, record.with_applied(first.name))
            mirror.note(run, attempt, f"{first.kind}/{first.object_name}", "Submitted")
        self._watch(cluster).forget(record.name)

    def _install(self, run: RunFolder, bundle: Bundle) -> None:
        """Put a bundle into the client's folder."""
        with writing(run):
            run.cancel_request.unlink(missing_ok=True)
            for folder in (run.events, run.logs):
                folder.mkdir(exist_ok=True)
            bundle.write(run.bundle)
            texts = {file.path: file.text for file in bundle.files}
            # the site lies beside the spec, where a later `resume --set` looks for it
            for path in (run.root / SITE, run.plan_file, run.spec_file):
                if path.name in texts:
                    write_atomically(path, texts[path.name])

    def _named(self, rendered: Bundle, bundle: Path, run_id: str) -> Bundle:
        """The same content under another name: rendered anew for ``x.2``."""
        if rendered.run_id == run_id:
            return rendered
        from trainwright.spec.load import load_site
        from trainwright.targets.kubernetes.render import render

        spec, plan = read_resolved(bundle / "spec.yaml"), Plan.read(bundle / "plan.json")
        return render(rendered.target, plan, spec, load_site(bundle / SITE), rendered.versions, run_id=run_id)

    def _look_at_all(self, runs: Sequence[tuple[RunFolder, JobRecord | None]]) -> None:
        """Ask once for all runs of a namespace, so that no run needs a query of its own."""
        places: dict[tuple[str, str], list[JobRecord]] = {}
        for _, record in runs:
            if record is not None and record.final is None:
                places.setdefault((record.context, record.namespace), []).append(record)
        for records in places.values():
            self._watch(self._cluster_of(records[0])).look([wanted(record) for record in records])

    def _state(
        self, run: RunFolder, record: JobRecord, *, fresh: bool = False, pull: bool = False, first: bool = False
    ) -> JobState:
        """``pull`` brings the logs of all pods, ``first`` those of the first node, which tell the step."""
        if record.final is not None:
            return record.final
        cluster = self._cluster_of(record)
        watch = self._watch(cluster)
        if fresh:
            watch.forget(record.name)
        looked = self._looked(run, record, watch, pull, first)
        following = next_stage(looked.snapshot)
        if following is not None and not looked.snapshot.cancelled and not looked.state.final:
            refused = self._advance(run, record, cluster, following.name)
            watch.forget(record.name)
            if refused is not None:
                return replace(looked.state, reason=refused)
            looked = self._looked(run, read_record(run) or record, watch, pull)
        if looked.state.final:
            self._ended(run, looked.state)
            watch.drop(record.name)
        return looked.state

    def _looked(self, run: RunFolder, record: JobRecord, watch: Watch, pull: bool, first: bool = False) -> Looked:
        """What there is now; logs of pods that have ended are brought here first, for they say why."""
        seen = watch.look([wanted(record)])[record.name]
        history = History(run, record)
        pods = history.pods(seen.pods)
        if watch.due(f"logs of {run.root}", 0.0 if pull else _PULL_SECONDS):
            leads = first and not run.metrics.exists()  # else the step stands there
            mirror.pull_logs(watch.cluster, run, pods, history.attempt(pods), only_ended=not pull, first=leads)
            recent = [one for one in seen.events if one.at >= record.at - _CLOCKS_APART]
            mirror.tell_events(run, recent, history.attempt(pods))
        looked = look(watch, run, record, seen, pods)
        done = tuple(stage.name for stage in looked.snapshot.stages if looked.done(stage))
        if set(done) - set(record.completed):
            with writing(run):
                write_record(run, replace(read_record(run) or record, completed=done))
        return looked

    def _followed(self, run: RunFolder) -> bool:
        """Bring what is new, at most every two seconds; True when nothing more will come."""
        record = read_record(run)
        if record is None:
            return True
        if record.final is not None:
            return True
        watch = self._watch(self._cluster_of(record))
        if not watch.due(f"follow {run.root}", _PULL_SECONDS):
            return False
        return self._state(run, record, pull=True).final

    def _advance(self, run: RunFolder, record: JobRecord, cluster: Cluster, stage: str) -> Reason | None:
        """Apply the next stage; the reason when the cluster refuses it. Who holds the run's lock does it already."""
        objects = submission.objects_of(self._read(run.bundle))
        one = next(found for found in record.stages if found.name == stage)
        try:
            submission.apply(cluster, submission.of_stage(objects, one))
        except (AnswerNo, InputError) as error:
            text = str(error).splitlines()[0]
            return Reason("k8s-stage-refused", "config", f"{stage} cannot be submitted: {text}", "", raw=str(error))
        with writing(run):
            write_record(run, (read_record(run) or record).with_applied(stage))
        return None

    def _ended(self, run: RunFolder, state: JobState) -> None:
        """Keep how it ended: the cluster forgets it."""
        record = read_record(run)
        if record is not None and record.final is None:
            with writing(run):
                write_record(run, replace(record, final=state))
                said = state.reason.sentence if state.reason is not None else ""
                mirror.note(run, state.attempt, f"{record.main.kind}/{record.main.object_name}", state.phase, said)

    def _read(self, folder: Path) -> Bundle:
        """Read and check a bundle; InputError for a damaged one and for another target's.

        A reference says ``k8s``, so that any of these classes may have to go on with a run of another kind.
        """
        bundle = Bundle.read(folder)
        if not REGISTRY.get(bundle.target, "").startswith(f"{__package__}."):
            what = f"is a bundle for target {bundle.target}"
            raise InputError([Problem(str(folder), what=what, instead=f"render it for {self.name}")])
        return bundle

    def _cluster(self, where: Mapping[str, str | None]) -> Cluster:
        if self._given is not None:
            return self._given
        from trainwright.targets.kubernetes.client import connect

        return connect(where.get("context"), where.get("namespace"))

    def _cluster_of(self, record: JobRecord) -> Cluster:
        return self._cluster({"context": record.context, "namespace": record.namespace})

    def _watch(self, cluster: Cluster) -> Watch:
        return watch_for(cluster)
