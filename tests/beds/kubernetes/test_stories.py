"""What users live through with a run on Kubernetes, on a real control plane with fake nodes: the object level.

Where code has to run (exceptions, checkpoints, logs) the stories are in ``test_real_stories.py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fake_runs import Run, Runs
from kubernetes_bed import Bed, until

from trainwright.errors import AnswerNo, InputError, SystemUnreachable, TrainwrightError
from trainwright.runs.folder import RunFolder
from trainwright.targets import of_run

LIVE = {"train": {"bed/run": "600s"}}
KINDS = ("job", "jobset", "trainjob")


@pytest.fixture
def runs(kubernetes: Bed, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
    return Runs(kubernetes, namespace, tmp_path)


def objects(runs: Runs) -> set[str]:
    """What the run's namespace holds of ours."""
    kinds = "jobset,trainjob,job,configmap,service,pod"
    label = "app.kubernetes.io/managed-by=trainwright"
    return set(runs.bed.kubectl("get", kinds, "-n", runs.namespace, "-l", label, "-o", "name").split())


@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_pipeline_of_a_gpu_run_ends_well_on_fake_nodes_and_is_told_after_its_objects_are_gone(
    runs: Runs, kind: str
) -> None:
    run = runs.start(kind, gpus=True, pods={name: {"bed/run": "2s"} for name in ("prepare", "train", "finish")})
    seen: list[str] = []

    def ended(state: object) -> bool:
        stage, final = getattr(state, "stage", None), getattr(state, "final", False)
        if stage and stage not in seen:
            seen.append(stage)
        return bool(final)

    state = run.until(ended, "the end")
    assert (state.phase, state.reason) == ("SUCCEEDED", None)
    assert seen == ["prepare", "train", "finish"]
    runs.bed.kubectl("delete", "jobset,trainjob,job", "--all", "-n", runs.namespace)
    assert run.status() == state
    # a command line that starts anew knows it too
    target, ref = of_run(run.target.folder(run.ref))
    assert target.status(ref) == state


@pytest.mark.ci
def test_no_stage_of_a_gpu_run_on_fake_nodes_holds_accelerators_that_it_does_not_use(runs: Runs) -> None:
    run = runs.start("jobset", gpus=True, pods={"prepare": {"bed/run": "4s"}, **LIVE})
    run.until(lambda s: s.stage == "prepare" and s.phase == "STARTING" and s.node, "prepare on a node")
    pods = runs.bed.get("pods", runs.namespace)["items"]
    limits = [pod["spec"]["containers"][0]["resources"].get("limits", {}) for pod in pods]
    assert len(pods) == 1
    assert "nvidia.com/gpu" not in limits[0]
    run.until(lambda s: s.stage == "train" and s.phase == "RUNNING", "training")


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_of_the_user_on_fake_nodes_fails_at_once_and_is_not_tried_again(runs: Runs, kind: str) -> None:
    run = runs.start(kind, pods={"train": {"bed/exit": "1"}}, retry={"user": 0, "infrastructure": 3})
    state = run.until_phase("FAILED", "SUCCEEDED")
    assert state.phase == "FAILED"
    assert state.attempt == 1
    assert state.reason is not None
    assert (state.reason.class_, state.reason.retry) == ("user-error", "none")


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_on_fake_nodes_is_tried_again_within_its_budget(runs: Runs, kind: str) -> None:
    # every fake pod of a Job counts; of real ones, all but the first to fail ask to go on, which is free
    budget = 3 if kind == "job" else 1
    run = runs.start(kind, pods={"train": {"bed/exit": "70", "bed/run": "2s"}}, retry={"infrastructure": budget})
    seen: list[int] = []
    state = run.until(lambda s: seen.append(s.attempt) or s.final, "the end")
    assert state.phase == "FAILED"
    assert max(seen) >= 2
    assert state.reason is not None
    assert "exit code 70" in state.reason.sentence


@pytest.mark.parametrize("kind", KINDS)
def test_cancel_on_fake_nodes_ends_pods_by_term_and_leaves_nothing_but_the_claim(runs: Runs, kind: str) -> None:
    run = runs.start(kind, pods={"train": {"bed/run": "600s", "bed/term": "2s"}})
    run.until_phase("RUNNING")
    state = run.target.cancel(run.ref)
    assert state.phase == "CANCELLED"
    assert objects(runs) == set()
    assert "persistentvolumeclaim/fsx" in runs.bed.kubectl("get", "pvc", "-n", runs.namespace, "-o", "name")
    assert run.status().phase == "CANCELLED"
    again = run.target.resume(run.ref)
    assert again == run.ref
    assert run.until_phase("RUNNING").attempt == 2


def test_cancel_now_does_not_wait_for_fake_pods(runs: Runs) -> None:
    run = runs.start("jobset", pods={"train": {"bed/run": "600s", "bed/term": "500s"}})
    run.until_phase("RUNNING")
    assert run.target.cancel(run.ref, grace_seconds=0).phase == "CANCELLED"


@pytest.mark.ci
def test_two_submits_at_once_are_one_run_on_fake_nodes(runs: Runs) -> None:
    bundle = runs.render("jobset", pods=LIVE)
    command = [sys.executable, "-m", "trainwright", "submit", str(bundle), "--output", "json",
               "--runs", str(runs.folder / "runs")]  # fmt: skip

    def submit(_: int) -> dict[str, object]:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        found: dict[str, object] = json.loads(done.stdout)
        return found

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(submit, range(2))
    assert first["run"] == second["run"]
    assert len(runs.bed.get("jobset", runs.namespace)["items"]) == 1


def test_a_fresh_submit_is_another_run_beside_the_first_on_fake_nodes(runs: Runs) -> None:
    first = runs.start("jobset", pods=LIVE)
    second = runs.submit(first.bundle, fresh=True)
    assert second.name == f"{first.name}-2"
    assert {item["metadata"]["name"] for item in runs.bed.get("jobset", runs.namespace)["items"]} == {
        first.name, second.name}  # fmt: skip
    assert second.until_phase("RUNNING").reason is None


@pytest.mark.ci
def test_a_watch_that_is_killed_and_started_again_tells_the_same_on_fake_nodes(runs: Runs) -> None:
    run = runs.start("jobset", pods={"train": {"bed/run": "12s"}, "finish": {"bed/run": "1s"}})
    command = [sys.executable, "-m", "trainwright", "status", "--watch", "--runs", str(runs.folder / "runs")]
    first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline().strip()
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    told = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert told.returncode == 0, told.stderr
    assert "SUCCEEDED" in told.stdout
    assert run.status().phase == "SUCCEEDED"


@pytest.mark.ci
def test_a_watch_outlives_a_restart_of_the_api_server_with_fake_nodes(runs: Runs) -> None:
    run = runs.start("jobset", pods={"train": {"bed/run": "10s"}, "finish": {"bed/run": "1s"}})
    run.until_phase("RUNNING")
    runs.bed.script("kill", "kube-apiserver")
    with ThreadPoolExecutor(1) as pool:
        restarted = pool.submit(lambda: (time.sleep(3), runs.bed.script("up")))
        state = run.until(lambda s: s.final, "the end")
        restarted.result()
    assert state.phase == "SUCCEEDED"


def test_a_node_that_is_gone_explains_what_its_fake_pods_could_not_say(runs: Runs, kubernetes: Bed) -> None:
    name = f"own-{runs.namespace}"
    node = {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"bed": name}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": {"cpu": "64", "memory": "500Gi", "pods": "100"},
                   "capacity": {"cpu": "64", "memory": "500Gi", "pods": "100"}},
    }  # fmt: skip
    kubernetes.apply(node)
    try:
        run = runs.start("jobset", pods=LIVE, pod={"nodeSelector": {"bed": name}, "topologySpreadConstraints": []})
        run.until_phase("RUNNING")
        kubernetes.kubectl("delete", "node", name)
        gone = "node of the pod was deleted"
        state = run.until(lambda s: s.reason is not None and gone in s.reason.sentence, "the lost node")
        assert state.attempt == 2
    finally:
        kubernetes.kubectl("delete", "node", name, "--ignore-not-found")


def test_what_the_server_refuses_leaves_nothing_behind(runs: Runs) -> None:
    bundle = runs.render("job", overrides={"Job": {"spec": {"completions": -1}}})
    with pytest.raises(TrainwrightError) as caught:
        runs.submit(bundle)
    assert isinstance(caught.value, InputError)
    assert "spec.completions" in str(caught.value)
    assert objects(runs) == set()


def test_a_dry_run_asks_the_server_and_makes_nothing(runs: Runs) -> None:
    for kind in KINDS:
        bundle = runs.render(kind)
        done = subprocess.run([sys.executable, "-m", "trainwright", "submit", str(bundle), "--dry-run=server"],
                              capture_output=True, text=True, timeout=60, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "accepted" in done.stdout
    assert objects(runs) == set()


def test_no_permission_names_verb_and_resource_and_leaves_nothing(
    runs: Runs, kubernetes: Bed, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = runs.render("jobset")
    monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig.with_name("nobody.kubeconfig")))
    with pytest.raises(SystemUnreachable, match=r"nobody may not \w+ configmaps in namespace"):
        runs.submit(bundle)
    assert objects(runs) == set()
    assert not RunFolder(runs.folder / "runs").job_file.exists()


def test_a_namespace_that_is_not_there_is_told(runs: Runs) -> None:
    bundle = runs.render("jobset", site={"namespace": "nowhere"})
    with pytest.raises(InputError, match="there is no namespace nowhere"):
        runs.submit(bundle)


def test_a_kind_that_is_not_there_names_what_to_install(runs: Runs) -> None:
    from trainwright.targets.kubernetes.client import connect

    with pytest.raises(AnswerNo, match="is not served by the cluster"):
        connect(None, runs.namespace).resource("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")


def test_an_expired_token_is_told(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = runs.render("jobset")
    config = json.loads(runs.bed.kubectl("config", "view", "--raw", "-o", "json"))
    for user in config["users"]:
        user["user"] = {"token": "expired"}
    (tmp_path / "expired").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "expired"))
    with pytest.raises(SystemUnreachable, match="missing or expired"):
        runs.submit(bundle)


def test_many_runs_on_fake_nodes_are_told_with_one_list_a_kind(runs: Runs) -> None:
    bundle = runs.render("jobset", pods=LIVE, pod={"nodeSelector": {"bed": "nowhere"}})
    found: list[Run] = [runs.submit(bundle)] + [runs.submit(bundle, fresh=True) for _ in range(9)]
    until(lambda: len(runs.bed.get("pods", runs.namespace)["items"]) == 20, "all pods")
    target = found[0].target
    for run in found:
        target._watch(target._cluster({"namespace": runs.namespace})).forget(run.name)
    watch = target._watch(target._cluster({"namespace": runs.namespace}))
    before = watch.queries
    states = target.statuses([run.ref for run in found])
    assert {state.reason.id for state in states if state.reason} == {"ksched-affinity"}
    assert watch.queries - before <= 4  # jobsets, pods, events; not one a run
