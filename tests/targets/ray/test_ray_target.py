"""The Ray target against jobs that only pretend: submitted once, watched, cancelled and resumed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from kubernetes_specs import own_script, plan_of

from trainwright.errors import InputError
from trainwright.runs.state import JobRef
from trainwright.spec.site import Site
from trainwright.targets.contract import Target
from trainwright.targets.doctor import passes
from trainwright.targets.ray.target import RayTarget

ADDRESS = "http://ray:8265"
BEGUN = "trainwright: waits train\n(RayTrainWorker pid=1) trainwright: begins train\n"
USER = (
    '(RayTrainWorker pid=1) trainwright: ended {"v": 1, "stage": "train", "attempt": 1, "code": 1, "class": "user", '
    '"rank": 1, "exception": "ValueError: no", "line": "a.py:3", "saved": null}\n'
)


@dataclass
class Pretended:
    """One Ray. ``known``: submission id → job; ``texts``: its log."""

    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    resources: list[dict[str, float]] = field(default_factory=lambda: [{"CPU": 4.0}] * 2)
    files: dict[str, str] = field(default_factory=dict)
    on_stop: Callable[[dict[str, Any]], object] = lambda job: job.update(status="STOPPED")
    address: str = ADDRESS

    def version(self) -> str:
        return "2.60.0"

    def submit(self, request: Mapping[str, Any], files: Mapping[str, str]) -> bool:
        self.known[request["submission_id"]] = {**request, "status": "PENDING", "start_time": 1000}
        self.files = dict(files)
        return True

    def job(self, id_: str) -> dict[str, Any] | None:
        return self.known.get(id_)

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.known.values())

    def log(self, id_: str) -> str:
        return self.texts.get(id_, "")

    def stop(self, id_: str) -> None:
        self.on_stop(self.known[id_])

    def nodes(self) -> list[dict[str, float]]:
        return self.resources


@dataclass
class Started:
    """A target over a pretended Ray, and a run of it."""

    ray: Pretended
    target: RayTarget
    bundle: Path
    runs: Path
    ref: JobRef

    def now(self, status: str, log: str = "", **fields: Any) -> None:
        """Let the last job be so."""
        id_ = list(self.ray.known)[-1]
        self.ray.known[id_].update(status=status, **fields)
        self.ray.texts[id_] = log


@pytest.fixture
def started(tmp_path: Path) -> Started:
    ray = Pretended()
    target = RayTarget(lambda _: ray, pause=lambda _: None)  # type: ignore[arg-type,return-value]
    spec = own_script(storage="/nowhere/runs")
    site = Site.model_validate({"ray": {"address": ADDRESS}})
    target.render(plan_of(spec, 2), spec, site, {}).write(tmp_path / "bundle")
    runs = tmp_path / "runs"
    return Started(ray, target, tmp_path / "bundle", runs, target.submit(tmp_path / "bundle", runs=runs))


def test_it_is_a_target(started: Started) -> None:
    target: Target = started.target
    assert target.name == "ray"


def test_two_submits_are_one_job_and_fresh_is_another(started: Started) -> None:
    assert started.target.submit(started.bundle, runs=started.runs) == started.ref
    assert len(started.ray.known) == 1
    assert {"spec.yaml", "plan.json"} == set(started.ray.files)
    other = started.target.submit(started.bundle, fresh=True, runs=started.runs)
    assert other != started.ref
    assert [id_.endswith(".2-1") for id_ in started.ray.known] == [False, True]


def test_another_client_finds_the_job_that_lives(started: Started, tmp_path: Path) -> None:
    again = started.target.submit(started.bundle, runs=tmp_path / "elsewhere")
    assert again.parts[:2] == started.ref.parts[:2]
    assert len(started.ray.known) == 1


def test_the_phases_of_a_run(started: Started) -> None:
    target, ref = started.target, started.ref
    assert target.status(ref).phase == "PENDING"
    started.now("RUNNING")
    assert target.status(ref).phase == "STARTING"
    started.now("RUNNING", BEGUN)
    assert (target.status(ref).phase, target.status(ref).stage) == ("RUNNING", "train")
    started.now("SUCCEEDED", BEGUN, end_time=5000)
    state = target.status(ref)
    assert (state.phase, state.since) == ("SUCCEEDED", 5.0)
    started.ray.known.clear()
    assert target.status(ref) == state


def test_why_a_run_waits(started: Started) -> None:
    started.now("RUNNING", "trainwright: waits train\n")
    reason = started.target.status(started.ref).reason
    assert reason is not None
    assert "are in use" in reason.sentence
    started.ray.resources = [{"CPU": 4.0}, {"CPU": 0.5}]
    state = started.target.status(started.ref)
    assert state.reason is not None
    assert (state.phase, state.reason.id) == ("PENDING", "ray-too-much")
    assert "2 node(s) with 1 CPU, but Ray has 1 of that size" in state.reason.sentence
    started.ray.resources = [{"CPU": 0.5}]
    reason = started.target.status(started.ref).reason
    assert reason is not None
    assert "the largest of its 1 has 0.5 CPU" in reason.sentence


def test_why_a_run_failed(started: Started) -> None:
    started.now("FAILED", BEGUN + USER, message="Job entrypoint command failed with exit code 1")
    state = started.target.status(started.ref)
    assert state.reason is not None
    assert (state.phase, state.rank, state.reason.class_) == ("FAILED", 1, "user-error")
    assert state.reason.sentence == "rank 1: ValueError: no (a.py:3)."


@pytest.mark.parametrize(
    ("message", "id_"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'trainwright'", "ray-no-trainwright"),
        ("Failed to set up the runtime environment", "ray-failed"),
    ],
)
def test_what_ended_before_anything_began_is_told_in_rays_words(started: Started, message: str, id_: str) -> None:
    started.now("FAILED", message=message)
    reason = started.target.status(started.ref).reason
    assert reason is not None
    assert reason.id == id_


def test_a_head_that_was_started_anew_has_forgotten_the_job(started: Started) -> None:
    started.ray.known.clear()
    state = started.target.status(started.ref)
    assert state.reason is not None
    assert (state.phase, state.reason.id) == ("FAILED", "ray-gone")


def test_cancel_waits_for_the_job_and_resume_starts_the_next(started: Started) -> None:
    started.now("RUNNING", BEGUN)
    assert started.target.cancel(started.ref).phase == "CANCELLED"
    ref = started.target.resume(started.ref)
    assert [id_[-2:] for id_ in started.ray.known] == ["-1", "-2"]
    assert started.target.status(ref).phase == "PENDING"
    started.now("RUNNING", BEGUN)
    assert started.target.status(ref).attempt == 2
    assert started.target.folder(ref) == started.target.folder(started.ref)


def test_logs_are_kept_where_the_client_has_none_of_the_storage(started: Started) -> None:
    started.now("RUNNING", BEGUN + "(RayTrainWorker pid=1) [rank 0] one\n")
    assert [line.text for line in started.target.logs(started.ref, rank=0)] == ["one"]
    started.now("RUNNING", BEGUN + "(RayTrainWorker pid=1) [rank 0] one\n(RayTrainWorker pid=1) [rank 0] two\n")
    assert [line.text for line in started.target.logs(started.ref, rank=0)] == ["one", "two"]
    started.now("SUCCEEDED", "")
    started.target.status(started.ref)
    started.ray.known.clear()
    assert [line.text for line in started.target.logs(started.ref, rank=0)] == ["one", "two"]


def test_many_runs_are_told_with_one_list(started: Started) -> None:
    refs = [started.ref, *(started.target.submit(started.bundle, fresh=True, runs=started.runs) for _ in range(3))]
    asked = itertools.count()
    listed = started.ray.jobs
    started.ray.jobs = lambda: (next(asked), listed())[1]  # type: ignore[method-assign]
    started.ray.job = lambda _: pytest.fail("asked for one job")  # type: ignore[method-assign,assignment]
    assert {state.phase for state in started.target.statuses(refs)} == {"PENDING"}
    assert next(asked) == 1


def test_doctor_says_what_does_not_fit(started: Started) -> None:
    spec = own_script(storage="/s", compute={"nodes": 3, "processes_per_node": 1}, global_batch_size=3)
    bundle = started.target.render(plan_of(spec, 3), spec, Site(), {})
    checks = started.target.doctor(bundle, Site())
    assert not passes(checks)
    assert [check.what for check in checks if check.state == "missing"] == ["train"]
    assert passes(started.target.doctor(None, Site()))


def test_a_reference_that_names_no_run_is_refused(started: Started) -> None:
    with pytest.raises(InputError, match="names no run"):
        started.target.folder(JobRef("ray", (ADDRESS, "other-1")))
