"""Submitting, resuming and cancelling, against a Slurm that answers its commands but runs nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from specs import own_script, plan_of, site_of, spec_of

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.runs.events import SUPERVISOR, EventLog
from trainwright.runs.folder import RunFolder
from trainwright.runs.state import JobRef
from trainwright.spec.load import load
from trainwright.targets.slurm.client import Client
from trainwright.targets.slurm.target import Slurm
from trainwright.targets.slurm.transport import Done
from trainwright.targets.slurm.watch import Watch


class FakeSlurm:
    """The transport under a client: jobs are rows, and a test sets their states."""

    name = "a fake"

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.submitted: list[list[str]] = []
        self.queries = 0
        self.refuse: str | None = None
        self.lose_answer_of: str | None = None
        self.on_term: Callable[[], None] = lambda: None

    def run(self, argv: Sequence[str], **options: Any) -> Done:
        command = [*argv]
        if command == ["sbatch", "--version"]:
            return Done(0, "slurm 22.05.8", "")
        return getattr(self, f"_{command[0]}")(command)  # type: ignore[no-any-return]

    def set(self, **states: str) -> None:
        """``set(train="FAILED")``: the state of the newest job of that stage."""
        for stage, state in states.items():
            newest = [job for job in self.jobs.values() if job["name"].endswith(f".{stage}")][-1]
            newest["job_state"] = state
            newest["exit_code"] = 256 if state == "FAILED" else 0

    def option(self, number: int, name: str) -> str | None:
        """An option of the n-th sbatch."""
        found = [word for word in self.submitted[number] if word.startswith(f"--{name}=")]
        return found[0].partition("=")[2] if found else None

    def _sbatch(self, argv: list[str]) -> Done:
        self.submitted.append(argv)
        name = next(word for word in argv if word.startswith("--job-name=")).partition("=")[2]
        if self.refuse and name.endswith(self.refuse):
            return Done(1, "", "sbatch: error: Batch job submission failed: Invalid partition name specified")
        id_ = str(100 + len(self.jobs))
        self.jobs[id_] = {"job_id": int(id_), "name": name, "job_state": "PENDING", "exit_code": 0}
        if self.lose_answer_of and name.endswith(self.lose_answer_of):
            raise SystemUnreachable("sbatch did not answer", "")
        return Done(0, f"{id_}\n", "")

    def _squeue(self, argv: list[str]) -> Done:
        self.queries += 1
        text = " ".join(argv)
        ids, names = re.search(r"--jobs=(\S+)", text), re.search(r"--name=(\S+)", text)
        rows = [
            job
            for id_, job in self.jobs.items()
            if (not ids or id_ in ids[1].split(",")) and (not names or job["name"] in names[1].split(","))
        ]
        return Done(0, json.dumps({"jobs": rows}), "")

    def _sacct(self, argv: list[str]) -> Done:
        return Done(1, "", "Slurm accounting storage is disabled")

    def _scancel(self, argv: list[str]) -> Done:
        if argv[1] == "--signal=TERM":
            self.on_term()
        else:
            for id_ in argv[1:]:
                self.jobs[id_]["job_state"] = "CANCELLED"
        return Done(0, "", "")

    def _scontrol(self, argv: list[str]) -> Done:
        return Done(0, "ClusterName             = hpc\n", "")


class Here:
    """A fake Slurm, the target on it, and bundles."""

    def __init__(self, folder: Path):
        self.folder, self.slurm = folder, FakeSlurm()

    @property
    def target(self) -> Slurm:
        """A new one for each call, as every command of the CLI has."""
        client = Client(self.slurm, patience=0.0, sleep=lambda seconds: None)
        return Slurm(Watch(client))

    def bundle(self, name: str = "b", **fields: Any) -> Path:
        spec = spec_of(storage=str(self.folder / "runs"), **fields)
        bundle = self.target.render(plan_of(spec), spec, site_of(), {})
        bundle.write(self.folder / name)
        return self.folder / name

    def run(self, ref: JobRef) -> RunFolder:
        return self.target.folder(ref)

    def names(self) -> list[str]:
        return [job["name"].partition(".")[2] for job in self.slurm.jobs.values()]


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_submit_queues_a_chain_in_the_runs_own_folder(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    assert here.names() == ["prepare", "train", "finish"]
    assert [here.slurm.option(n, "dependency") for n in range(3)] == [None, "afterok:100,singleton", "afterok:101"]
    assert {here.slurm.option(n, "chdir") for n in range(3)} == {str(run.root)}
    assert here.slurm.submitted[1][-1] == f"{run.root}/bundle/train.sbatch"
    assert all(path.exists() for path in (run.logs, run.events, run.spec_file, run.plan_file, run.job_file))
    assert ref.parts[:2] == ("hpc", "101")
    assert here.target.status(ref).phase == "PENDING"


def test_submit_twice_is_one_run_and_fresh_is_another(here: Here) -> None:
    bundle = here.bundle()
    ref = here.target.submit(bundle)
    assert here.target.submit(bundle) == ref
    here.slurm.set(prepare="COMPLETED", train="COMPLETED", finish="COMPLETED")
    assert here.target.submit(bundle) == ref
    assert len(here.slurm.submitted) == 3
    another = here.target.submit(bundle, fresh=True)
    assert here.run(another).run_id == f"{here.run(ref).run_id}.2"
    assert here.slurm.option(4, "job-name") == f"{here.run(ref).run_id}.2.train"


def test_a_refused_stage_leaves_nothing_queued_and_no_record(here: Here) -> None:
    here.slurm.refuse = "finish"
    with pytest.raises(InputError, match="partition"):
        here.target.submit(here.bundle())
    assert {job["job_state"] for job in here.slurm.jobs.values()} == {"CANCELLED"}
    here.slurm.refuse = None
    here.target.submit(here.folder / "b")
    assert here.names() == ["prepare", "train", "prepare", "train", "finish"]


def test_a_job_whose_answer_was_lost_is_found_by_its_name(here: Here) -> None:
    here.slurm.lose_answer_of = "train"
    ref = here.target.submit(here.bundle())
    assert ref.parts[1] == "101"
    assert here.slurm.option(2, "dependency") == "afterok:101"


def test_jobs_that_no_record_names_are_adopted_when_whole_and_ended_when_not(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    here.run(ref).job_file.unlink()
    assert here.target.submit(here.folder / "b") == ref
    assert len(here.slurm.submitted) == 3
    here.run(ref).job_file.unlink()
    here.slurm.set(finish="CANCELLED")
    here.target.submit(here.folder / "b")
    assert [here.slurm.jobs[i]["job_state"] for i in ("100", "101", "103")] == ["CANCELLED", "CANCELLED", "PENDING"]


def test_resume_queues_what_is_left(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    here.slurm.set(prepare="COMPLETED", train="FAILED", finish="CANCELLED")
    again = here.target.resume(ref)
    assert here.names()[3:] == ["prepare", "train", "finish"]
    here.slurm.set(prepare="COMPLETED", train="COMPLETED", finish="FAILED")
    last = here.target.resume(again)
    assert here.names()[6:] == ["finish"]
    assert here.slurm.option(6, "dependency") is None
    here.slurm.set(finish="COMPLETED")
    assert here.target.status(last).phase == "SUCCEEDED"
    assert here.target.resume(last) == last


def test_a_resumed_run_leaves_out_nodes_that_failed_twice_and_counts_its_attempts_on(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    for attempt in (1, 2):
        log = EventLog(run.events, run.run_id, attempt, SUPERVISOR)
        log.write("failed", stage="train", code=70, saved=None, nodes=["n7"], **{"class": "node-lost"})
    here.slurm.set(prepare="COMPLETED", train="FAILED", finish="CANCELLED")
    here.target.resume(ref)
    assert here.slurm.option(4, "exclude") == "n7"
    assert json.loads(run.job_file.read_text())["submissions"][-1]["attempt"] == 3


def test_a_live_run_is_left_alone_and_its_spec_cannot_change(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    assert here.target.resume(ref) == ref
    with pytest.raises(AnswerNo, match="is PENDING"):
        here.target.resume(ref, here.bundle("edited", logging_steps=5))
    here.slurm.set(prepare="COMPLETED", train="COMPLETED", finish="COMPLETED")
    here.target.resume(ref, here.folder / "edited")
    assert here.names()[3:] == ["prepare", "train", "finish"]


def test_the_site_is_kept_beside_the_spec_so_that_a_later_change_is_rendered_for_it(here: Here) -> None:
    run = here.run(here.target.submit(here.bundle()))
    loaded = load(run.spec_file)
    assert loaded.site == site_of()
    assert loaded.spec == run.spec()


def test_cancel_takes_what_waits_out_of_the_queue(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    assert here.target.cancel(ref).phase == "CANCELLED"
    assert {job["job_state"] for job in here.slurm.jobs.values()} == {"CANCELLED"}


def test_cancel_lets_a_running_job_save_first(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    here.slurm.set(prepare="COMPLETED", train="RUNNING")
    seen: list[str] = []

    def ends() -> None:
        seen.append("TERM")
        here.slurm.set(train="FAILED")

    here.slurm.on_term = ends
    assert here.target.cancel(ref).phase == "CANCELLED"
    assert seen == ["TERM"]
    assert here.slurm.jobs["101"]["job_state"] == "FAILED"  # it ended by itself


def test_cancel_ends_what_does_not_stop_and_asks_nobody_at_once(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    here.slurm.set(prepare="COMPLETED", train="RUNNING")
    here.slurm.on_term = lambda: pytest.fail("was asked to save")
    assert here.target.cancel(ref, grace_seconds=0).phase == "CANCELLED"
    assert here.slurm.jobs["101"]["job_state"] == "CANCELLED"


def test_a_successor_that_a_job_put_in_its_place_is_followed(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    here.slurm.set(prepare="COMPLETED", train="FAILED")
    here.slurm.jobs["200"] = {"job_id": 200, "name": "x.train", "job_state": "RUNNING", "exit_code": 0}
    EventLog(run.events, run.run_id, 2, SUPERVISOR).write("restarted", stage="train", job="200", exclude="n1")
    assert here.target.status(ref).phase == "STARTING"


def test_many_runs_cost_one_query(here: Here) -> None:
    refs = [here.target.submit(here.bundle(f"b{n}", seed=n)) for n in range(20)]
    here.slurm.queries = 0
    assert {state.phase for state in here.target.statuses(refs)} == {"PENDING"}
    assert here.slurm.queries == 1


def test_references_lead_back_to_the_folder(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(here.folder / "runs"))
    ref = here.target.submit(here.bundle())
    assert str(ref) == "slurm://hpc/101"
    assert here.target.folder(JobRef.parse(str(ref))) == here.run(ref)
    for wrong in ("slurm://hpc/999", "slurm://hpc", "local://x"):
        with pytest.raises(InputError, match="names no run"):
            here.target.folder(JobRef.parse(wrong))


def test_a_missing_secret_stops_the_submit_before_anything_is_queued(here: Here) -> None:
    with pytest.raises(InputError, match="NOT_SET_ANYWHERE"):
        here.target.submit(here.bundle(secrets={"TOKEN": {"env": "NOT_SET_ANYWHERE"}}))
    assert here.slurm.submitted == []


def test_a_bundle_of_another_target_is_refused(here: Here) -> None:
    bundle = here.bundle()
    values = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps({**values, "target": "local"}))
    with pytest.raises(InputError, match="bundle for target local"):
        here.target.submit(bundle)


def test_logs_and_status_before_anything_ran(here: Here) -> None:
    ref = here.target.submit(here.bundle())
    assert list(here.target.logs(ref)) == []
    with pytest.raises(InputError, match="training has not begun"):
        here.target.logs(ref, rank=3)
    assert own_script().train is not None
