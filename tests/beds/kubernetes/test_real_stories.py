"""What users live through with a run on Kubernetes whose code really runs: two real nodes, kubelet 1.36, containerd.

The built-in trainer trains over gloo between the nodes and saves on shared storage; it is killed, cancelled, resumed.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from kubernetes_bed import Bed, until
from real_runs import Real, RealRuns

from trainwright.runs.folder import RunFolder, find
from trainwright.runs.steps import saved_step
from trainwright.targets.kubernetes.labels import RUN, STAGE


@pytest.fixture
def runs(real_kubernetes: Bed, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RealRuns:
    monkeypatch.setenv("KUBECONFIG", str(real_kubernetes.kubeconfig))
    return RealRuns(real_kubernetes, namespace, tmp_path)


def root(runs: RealRuns, run: Real) -> Path:
    """The run's own folder, which the pods share."""
    return runs.shared / "runs" / run.folder.run_id


def processes(runs: RealRuns, run: Real, word: str) -> list[int]:
    """Processes of a run's containers whose command line holds a word: they are processes of this machine."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            command, environment = (path / "cmdline").read_bytes(), (path / "environ").read_bytes()
        except OSError:
            continue
        if word.encode() in command and f"TRAINWRIGHT_RUN_DIR={root(runs, run)}".encode() in environment:
            found.append(int(path.name))
    return sorted(found)


def losses(folder: Path) -> dict[int, float]:
    """Loss of each step, as it was logged last."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


@pytest.mark.ci
def test_the_whole_pipeline_trains_on_two_real_nodes_and_its_logs_outlive_its_objects(runs: RealRuns) -> None:
    """Stories 1, 11 and 12, and submit twice."""
    registry = f"{runs.mount}/registry"
    spec = runs.tiny("whole", "jobset", 12, register={"name": "tiny", "path": registry})
    run = runs.submit(spec)
    nodes: set[str] = set()

    def ended(state: object) -> bool:
        if getattr(state, "stage", None) == "train" and getattr(state, "node", None):
            nodes.update(str(getattr(state, "node", "")).split(","))
        return bool(getattr(state, "final", False))

    state = run.until(ended, "the end")
    assert (state.phase, state.reason, state.attempt) == ("SUCCEEDED", None, 1)
    assert nodes == {"node-1", "node-2"}
    folder = root(runs, run)
    assert max(losses(folder)) == 12
    assert (folder / "checkpoints" / "step-00000012" / "manifest.json").is_file()
    assert (runs.shared / "registry" / "tiny" / "1").is_dir()
    runs.bed.kubectl("delete", "jobset,pod", "--all", "-n", runs.namespace)
    assert any("step 12/12" in line for line in run.lines(rank=0))
    assert "SUCCEEDED" in runs.cli("status", run.folder.run_id, "--runs", str(runs.here / "runs"))
    again = runs.submit(spec)
    assert again.folder == run.folder
    assert runs.bed.get("jobset", runs.namespace)["items"] == []


@pytest.mark.ci
def test_an_error_of_the_user_is_told_with_rank_file_and_line(runs: RealRuns) -> None:
    """Story 2."""
    run = runs.submit(runs.script("wrong", "jobset", "collective.py", "raise", "50"))
    state = run.until(lambda s: s.final, "the end")
    assert state.reason is not None
    assert (state.phase, state.reason.class_) == ("FAILED", "user-error")
    assert "ValueError: label 7 is outside of the vocabulary" in state.reason.sentence
    assert "collective.py:" in state.reason.sentence
    assert (state.rank, state.attempt) == (1, 1)
    assert state.node in ("node-1", "node-2")
    assert "FAILED" in runs.cli("status", run.folder.run_id, "--runs", str(runs.here / "runs"), code=1)


@pytest.mark.ci
def test_a_killed_worker_restarts_its_gang_from_the_checkpoint(runs: RealRuns) -> None:
    """Story 3: the steps after it are those of a run that nobody disturbed."""
    run = runs.submit(runs.tiny("killed", "jobset", 400))
    folder = root(runs, run)

    def saved() -> int:
        run.status()
        return saved_step(RunFolder(folder)) or 0

    until(lambda: saved() >= 8, "a checkpoint")
    before = losses(folder)
    os.kill(processes(runs, run, "trainwright.training.worker")[-1], signal.SIGKILL)
    state = run.until(lambda s: s.attempt == 2, "a second attempt")
    reached = max(before)
    until(lambda: run.status() and max(losses(folder)) > reached + 8, "steps of the second attempt")
    state = run.status()
    assert (state.phase, state.attempt) == ("RUNNING", 2)
    assert "started again" in str(state.reason)
    after = losses(folder)
    assert {step: after[step] for step in before if step <= saved()} == {
        step: loss for step, loss in before.items() if step <= saved()
    }
    run_target_cancel(run)


@pytest.mark.ci
def test_a_killed_node_restarts_the_gang_from_the_checkpoint(runs: RealRuns) -> None:
    """Story 4: the node says nothing any more; its pods are given up, and somebody confirms that it is gone."""
    run = runs.submit(runs.tiny("lost", "jobset", 2000))
    folder = root(runs, run)
    until(lambda: run.status() and (saved_step(RunFolder(folder)) or 0) >= 8, "a checkpoint")
    pods = runs.bed.get("pods", runs.namespace, f"{RUN}={run.folder.run_id}")["items"]
    lost = next(pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"].get(STAGE) == "train")
    try:
        runs.bed.script("kill", lost)
        before, saved = losses(folder), saved_step(RunFolder(folder)) or 0
        runs.bed.wait(f"node/{lost}", "condition=Ready=Unknown")
        # as the operator, or the cloud's controller that sees the instance end
        runs.bed.kubectl("taint", "node", lost, "node.kubernetes.io/out-of-service=ended:NoExecute", "--overwrite")
        state = run.until(lambda s: s.attempt == 2, "a second attempt")
        assert lost in str(state)
        reached = max(before)
        until(lambda: run.status() and max(losses(folder)) > reached + 8, "steps of the second attempt")
        after = losses(folder)
        assert {step: after[step] for step in before if step <= saved} == {
            step: loss for step, loss in before.items() if step <= saved
        }
        run_target_cancel(run)
    finally:
        runs.bed.kubectl("taint", "node", lost, "node.kubernetes.io/out-of-service-", check=False)
        runs.bed.script("up")
        runs.bed.wait(f"node/{lost}", "Ready")


@pytest.mark.ci
def test_a_cancelled_run_sees_term_saves_and_goes_on_from_there(runs: RealRuns) -> None:
    """Story 5."""
    run = runs.submit(runs.script("stop", "jobset", "patient.py", compute={"nodes": 1, "processes_per_node": 1}))
    until(lambda: run.status() and any("from step 0" in line for line in run.lines()), "its first line")
    said = runs.cli("cancel", run.folder.run_id, "--runs", str(runs.here / "runs"))
    assert "CANCELLED" in said
    assert any("after ['SIGTERM']" in line for line in run.lines())
    runs.cli("resume", run.folder.run_id, "--runs", str(runs.here / "runs"))
    state = run.until(lambda s: s.final, "the end")
    assert (state.phase, state.attempt) == ("SUCCEEDED", 2)


def test_logs_reach_a_client_that_does_not_share_the_storage(
    real_kubernetes: Bed, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim is mounted where this machine has nothing."""
    monkeypatch.setenv("KUBECONFIG", str(real_kubernetes.kubeconfig))
    away = RealRuns(real_kubernetes, namespace, tmp_path, mount="/away")
    run = away.submit(away.script("far", "jobset", "collective.py", "go", "3"))
    state = run.until(lambda s: s.final, "the end")
    assert state.phase == "SUCCEEDED"
    assert run.folder.root.is_relative_to(tmp_path)
    away.bed.kubectl("delete", "jobset,pod", "--all", "-n", namespace)
    for rank in (0, 1):
        assert [line for line in run.lines(rank=rank) if line.startswith("step")] == [
            f"step {step} sum 2" for step in range(3)
        ]
    assert find("far", tmp_path / "runs").root == run.folder.root


def test_a_watch_outlives_a_restart_of_the_api_server(runs: RealRuns) -> None:
    """Story 10."""
    run = runs.submit(runs.script("through", "job", "collective.py", "go", "200"))
    run.until(lambda s: s.phase == "RUNNING", "its start")
    runs.bed.script("kill", "kube-apiserver")
    time.sleep(2)
    runs.bed.script("up")
    state = run.until(lambda s: s.final, "the end")
    assert state.phase == "SUCCEEDED"


def run_target_cancel(run: Real) -> None:
    """Stop it at once: what it had to show is shown."""
    from trainwright.targets import of_run

    target, ref = of_run(run.folder)
    target.cancel(ref, grace_seconds=0)
