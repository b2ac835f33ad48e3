"""Submitting, resuming and cancelling, against a Slurm that answers its commands but runs nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slurm_fakes import Here, Killed
from specs import own_script, site_of

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.runs.events import SUPERVISOR, EventLog
from trainwright.runs.state import JobRef
from trainwright.spec.load import load


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def test_a_controller_that_goes_away_amid_a_submit_leaves_no_unknown_job(here: Here) -> None:
    """What could not be cancelled is named, and the next submit takes it back before it begins again."""
    bundle = here.bundle()
    here.slurm.away_after = 1
    with pytest.raises(SystemUnreachable, match=r"queued already, and not cancelled: 100") as told:
        here.target.submit(bundle)
    assert "scancel 100" in str(told.value.way_out)
    here.slurm.away_after = None
    here.target.submit(bundle)
    assert [job["job_state"] for job in here.slurm.jobs.values()] == ["CANCELLED", "PENDING", "PENDING", "PENDING"]


@pytest.mark.parametrize("heard", [True, False], ids=["after the command was heard", "before"])
def test_a_submit_that_is_killed_at_any_command_leaves_one_chain_after_the_next(tmp_path: Path, heard: bool) -> None:
    for moment in range(20):
        here = Here(tmp_path / str(moment))
        bundle = here.bundle()
        here.slurm.kill_in, here.slurm.heard_last = moment, heard
        try:
            here.target.submit(bundle)
        except Killed:
            pass
        else:
            assert moment > 4, "the kill must have met a submit"
            return
        here.slurm.kill_in = 10**9
        here.target.submit(bundle)
        live = [job["name"].partition(".")[2] for job in here.slurm.jobs.values() if job["job_state"] == "PENDING"]
        assert sorted(live) == ["finish", "prepare", "train"], moment
    raise AssertionError("no submit came to its end")


@pytest.mark.parametrize("skew", [-86400.0, 86400.0])
def test_clocks_of_nodes_that_are_a_day_off_hide_nothing(here: Here, skew: float) -> None:
    ref = here.target.submit(here.bundle())
    run = here.run(ref)
    here.slurm.set(prepare="COMPLETED", train="RUNNING")
    log = EventLog(run.events, run.run_id, 1, SUPERVISOR)
    log.write("started", stage="train", job="101", nodes="n1")
    (path,) = run.events.glob("*.jsonl")
    line = json.loads(path.read_text())
    path.write_text(json.dumps({**line, "t": line["t"] + skew}) + "\n")
    assert here.target.status(ref).phase == "RUNNING"
    assert here.target.status(ref).attempt == 1


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
