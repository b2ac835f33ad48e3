"""One run through the Kubernetes target, from submit to its logs, against a cluster in memory."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from fake_cluster import NOW, FakeCluster, conditions, ended
from kubernetes_specs import own_script, plan_of

from trainwright.errors import AnswerNo, InputError, Problem, SystemUnreachable
from trainwright.runs.folder import RunFolder, default_runs
from trainwright.spec.model import RunSpec
from trainwright.targets.bundle import Bundle, BundleFile, carried
from trainwright.targets.kubernetes import target as target_module
from trainwright.targets.kubernetes.cluster import Object
from trainwright.targets.kubernetes.kinds import JobSetTarget, JobTarget
from trainwright.targets.kubernetes.labels import RUN, STAGE
from trainwright.targets.kubernetes.place import runs_folder
from trainwright.targets.kubernetes.record import read_record
from trainwright.targets.kubernetes.target import KubernetesTarget
from trainwright.targets.kubernetes.watch import Watch

ID = "demo-00000001"


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch(cluster, clock=Clock())
    monkeypatch.setattr(target_module, "watch_for", lambda _: found)
    return found


def tick(watch: Watch, seconds: float = 60.0) -> None:
    """Let time pass for the watch, so that it asks again."""
    clock: Any = watch._clock
    clock.now += seconds


@pytest.fixture
def target(cluster: FakeCluster, watch: Watch) -> KubernetesTarget:
    def pause(_: float) -> None:
        tick(watch)

    return JobTarget(cluster, pause)


def manifest(kind: str, name: str, stage: str, api_version: str = "batch/v1") -> str:
    labels = {RUN: ID, STAGE: stage}
    return json.dumps(
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, "spec": {}}
    )


def bundle_of(folder: Path, target: str = "job", run_id: str = ID) -> Path:
    spec: RunSpec = own_script()
    files = [
        BundleFile("config.yaml", manifest("ConfigMap", f"{ID}-config", "config", "v1"), 1),
        BundleFile("prepare.yaml", manifest("Job", f"{ID}-prepare", "prepare"), 2),
        BundleFile(
            "train.yaml", manifest("Service", ID, "train", "v1") + "\n---\n" + manifest("Job", ID, "train"), 3
        ),
        BundleFile("finish.yaml", manifest("Job", f"{ID}-finish", "finish"), 4),
    ]
    if target == "jobset":
        whole = manifest("JobSet", ID, "pipeline", "jobset.x-k8s.io/v1alpha2")
        files = [files[0], BundleFile("train.yaml", whole, 2)]
    where = {"context": "test", "namespace": "ml", "name": ID, "run_dir": f"/nowhere/{ID}"}
    plan = plan_of(spec, 2, cost=20.0, hours=2.0)
    Bundle(run_id, target, {"kubernetes": "1.36"}, where, (*files, *carried(spec, plan)), ()).write(folder)
    return folder


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return bundle_of(tmp_path / "out")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def done(cluster: FakeCluster, name: str) -> None:
    cluster.objects["Job", name]["status"] = {"conditions": conditions("Complete")}


def applied(cluster: FakeCluster) -> list[str]:
    return [one.removeprefix("apply ") for one in cluster.asked if one.startswith("apply ")]


def test_submit_checks_everything_it_applies_and_applies_the_first_stage_only(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    assert str(ref).startswith(f"k8s://test/ml/Job/{ID}")
    assert applied(cluster) == [f"ConfigMap/{ID}-config", f"Job/{ID}-prepare"]
    first_apply = cluster.asked.index(f"apply ConfigMap/{ID}-config")
    assert f"check Job/{ID}-prepare" in cluster.asked[:first_apply]
    state = target.status(ref)
    assert (state.phase, state.stage) == ("PENDING", "prepare")


def test_submitting_twice_is_one_run(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path, runs: Path
) -> None:
    first = target.submit(bundle, runs=runs)
    before = len(applied(cluster))
    assert target.submit(bundle, runs=runs) == first
    assert len(applied(cluster)) == before


def test_whoever_looks_moves_the_run_to_its_next_stage(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    done(cluster, f"{ID}-prepare")
    tick(watch)
    assert target.status(ref).stage == "train"
    assert {("Service", ID), ("Job", ID)} <= set(cluster.objects)
    done(cluster, ID)
    tick(watch)
    target.status(ref)
    done(cluster, f"{ID}-finish")
    tick(watch)
    assert target.status(ref).phase == "SUCCEEDED"
    cluster.objects.clear()  # the time to live ends
    tick(watch)
    assert target.status(ref).phase == "SUCCEEDED"
    assert target.submit(bundle, runs=runs) == ref


def test_a_stage_that_the_cluster_refuses_is_told_and_tried_again(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    done(cluster, f"{ID}-prepare")
    cluster.refuse[f"Job/{ID}"] = AnswerNo("the webhook says no", "")
    tick(watch)
    state = target.status(ref)
    assert state.reason is not None
    assert state.reason.sentence.startswith("train cannot be submitted: the webhook says no")
    assert ("Service", ID) not in cluster.objects
    cluster.refuse.clear()
    tick(watch)
    assert target.status(ref).stage == "train"
    assert ("Job", ID) in cluster.objects


@pytest.mark.parametrize("broken", [f"Job/{ID}-prepare", f"apply Job/{ID}-prepare"])
def test_nothing_half_submitted_is_left_behind(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path, runs: Path, broken: str
) -> None:
    cluster.refuse[broken] = SystemUnreachable("ada may not patch jobs.batch", "ask")
    with pytest.raises(SystemUnreachable, match="ada may not"):
        target.submit(bundle, runs=runs)
    assert cluster.objects == {}
    assert read_record(RunFolder(runs / ID)) is None


def test_everything_that_is_wrong_is_told_at_once_by_a_dry_run(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path
) -> None:
    assert target.check(bundle)[0] == f"config.yaml: ConfigMap/{ID}-config accepted"
    for name in (f"Job/{ID}-prepare", f"Job/{ID}"):
        cluster.refuse[name] = InputError([Problem(name, field="spec.x", what="no such field")])
    with pytest.raises(InputError) as caught:
        target.check(bundle)
    assert [problem.path for problem in caught.value.problems] == [
        f"prepare.yaml (Job/{ID}-prepare)", f"train.yaml (Job/{ID})"]  # fmt: skip
    assert cluster.objects == {}


def test_cancel_deletes_what_runs_and_keeps_what_it_printed(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    done(cluster, f"{ID}-prepare")
    tick(watch)
    target.status(ref)
    cluster.pod(ID, f"{ID}-0", index=0)
    cluster.printed[f"{ID}-0"] = b"2026-12-01T10:00:01.5Z [rank 1] step 3\n2026-12-01T10:00:02Z agent\n"
    tick(watch)
    assert target.status(ref).phase == "RUNNING"
    state = target.cancel(ref)
    assert state.phase == "CANCELLED"
    assert set(cluster.objects) == set()
    folder = RunFolder(runs / ID)
    assert folder.rank_log(1, 1).read_text() == "step 3\n"
    assert [line.text for line in target.logs(ref, rank=1)] == ["step 3"]
    assert folder.stage_log(1, "train-0").read_text() == "agent\n"
    assert target.status(ref).phase == "CANCELLED"


def test_resume_takes_the_failed_stage_away_and_applies_it_again(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    done(cluster, f"{ID}-prepare")
    tick(watch)
    target.status(ref)
    cluster.pod(ID, f"{ID}-0", status=ended(1, message="ValueError: bad row"))
    cluster.objects["Job", ID]["status"] = {"conditions": conditions("Failed", reason="PodFailurePolicy")}
    tick(watch)
    state = target.status(ref)
    assert state.phase == "FAILED"
    assert state.reason is not None
    assert "bad row" in state.reason.sentence
    assert target.resume(ref) == ref
    assert ("Job", ID) in [(kind, name) for kind, name, _ in cluster.deleted]
    assert "status" not in cluster.objects["Job", ID]
    assert applied(cluster).count(f"Job/{ID}-prepare") == 1  # it was complete
    tick(watch)
    again = target.status(ref)
    assert (again.phase, again.attempt) == ("PENDING", 2)


def test_a_finished_run_is_not_resumed_and_a_live_one_is_left_alone(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    asked = len(applied(cluster))
    assert target.resume(ref) == ref
    assert len(applied(cluster)) == asked
    with pytest.raises(AnswerNo, match="cannot be changed under it"):
        target.resume(ref, bundle)


def test_events_of_the_cluster_are_kept_once_each(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    cluster.event("Job", f"{ID}-prepare", "FailedCreate", "Error creating: no such luck")
    cluster.event("Job", "another", "FailedCreate", "not ours")
    tick(watch)
    for one in cluster.objects.values():
        if one["kind"] == "Event":
            one["lastTimestamp"] = "2999-01-01T00:00:00Z"  # since the submit
    cluster.event("Job", f"{ID}-prepare", "FailedCreate", "of an earlier run")
    tick(watch)
    told = [e for e in target.events(ref) if e["kind"] == "cluster"]
    tick(watch)
    assert [e for e in target.events(ref) if e["kind"] == "cluster"] == told
    assert [(e["object"], e["reason"]) for e in told] == [
        (f"Job/{ID}-prepare", "Submitted"), (f"Job/{ID}-prepare", "FailedCreate")]  # fmt: skip


def test_many_runs_are_asked_for_together(cluster: FakeCluster, watch: Watch, tmp_path: Path) -> None:
    target = JobSetTarget(cluster)
    refs = []
    for number in range(20):
        run_id = f"demo-{number:08d}"
        folder = bundle_of(tmp_path / f"b{number}", "jobset")
        for name in ("config.yaml", "train.yaml", "bundle.json"):
            (folder / name).write_text((folder / name).read_text().replace(ID, run_id))
        values = json.loads((folder / "bundle.json").read_text())
        for one in values["files"]:
            one["sha256"] = BundleFile(one["path"], (folder / one["path"]).read_text()).sha256
        (folder / "bundle.json").write_text(json.dumps(values))
        refs.append(target.submit(folder, runs=tmp_path / "runs"))
        cluster.pod(run_id, f"{run_id}-0")
    tick(watch)
    cluster.asked.clear()
    states = target.statuses(refs)
    assert {state.phase for state in states} == {"RUNNING"}
    assert cluster.asked == ["list JobSet", "list Pod"]


def test_a_bundle_of_another_target_is_refused(target: KubernetesTarget, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a bundle for target slurm"):
        target.submit(bundle_of(tmp_path / "b", "slurm"))


def test_whatever_class_answers_for_a_reference_goes_on_with_a_run_of_any_kind(
    target: KubernetesTarget, cluster: FakeCluster, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    other = JobSetTarget(cluster)
    assert other.cancel(ref).phase == "CANCELLED"
    assert other.resume(ref) == ref
    record = read_record(RunFolder(runs / ID))
    assert record is not None
    assert record.target == "job"


def test_costs_are_those_of_the_pods_so_far(
    target: KubernetesTarget, cluster: FakeCluster, watch: Watch, bundle: Path, runs: Path
) -> None:
    ref = target.submit(bundle, runs=runs)
    done(cluster, f"{ID}-prepare")
    tick(watch)
    target.status(ref)
    pod: Object = cluster.pod(ID, f"{ID}-0", status=ended(0, "Completed", at="2026-12-01T11:00:00Z"))
    pod["status"]["startTime"] = NOW
    tick(watch)
    assert (
        target.status(ref).cost == 5.0
    )  # an hour of one of two nodes; the plan says 20 dollars for two hours of both


def test_the_pods_storage_is_the_clients_folder_only_where_pods_run_as_this_user(tmp_path: Path) -> None:
    run_dir = str(tmp_path / "shared" / ID)
    (tmp_path / "shared").mkdir()
    assert runs_folder(tmp_path / "b", ID, run_dir, None, os.geteuid()) == tmp_path / "shared"
    assert runs_folder(tmp_path / "b", ID, run_dir, None, os.geteuid() + 1) == default_runs()
    assert runs_folder(tmp_path / "b", ID, "/nowhere/x", None, os.geteuid()) == default_runs()
