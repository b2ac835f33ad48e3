"""The story of a local run, told with real processes: it ends, fails, restarts, is cancelled, resumed and killed."""

from __future__ import annotations

import json
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from local_machine import UNTIL_STOPPED, Machine, gone, kill, script, until

from trainwright.errors import AnswerNo, InputError, SystemUnreachable
from trainwright.runs.state import JobRef
from trainwright.targets.local.process import send
from trainwright.targets.local.target import Local


def test_stages_run_in_order_and_the_run_succeeds(machine: Machine) -> None:
    stages = [script(name, f"note('{name}')") for name in ("prepare", "train", "finish", "report")]
    ref = machine.submit(*stages)
    state = machine.end(ref)
    assert (state.phase, state.attempt, state.reason) == ("SUCCEEDED", 1, None)
    assert machine.notes(ref) == ["prepare", "train", "finish", "report"]
    kinds = [(event["kind"], event.get("stage")) for event in Local().events(ref)]
    assert kinds == [("started", s.name) for s in stages] + [("finished", None)]


def test_a_run_goes_on_after_the_command_line_is_gone(machine: Machine) -> None:
    ref = machine.submit(script("train", "wait_for('go'); note(f'{os.getsid(0)} {os.getppid()}')"))
    supervisor = machine.record(ref).supervisor.pid
    until(lambda: machine.status(ref).phase == "RUNNING", "running")
    (machine.folder(ref).root / "go").touch()
    assert machine.end(ref).phase == "SUCCEEDED"
    session, parent = map(int, machine.notes(ref)[0].split())
    assert parent == supervisor
    assert session != os.getsid(0), "the run shares our session and would get our Ctrl-C"


def test_a_finished_run_is_told_and_fresh_starts_another(machine: Machine) -> None:
    stage = script("train", "note('ran')")
    ref = machine.submit(stage)
    machine.end(ref)
    assert machine.submit(stage) == ref
    assert machine.notes(ref) == ["ran"]
    (machine.runs / (machine.folder(ref).run_id + ".bak")).mkdir()  # somebody's copy is no run
    other = machine.submit(stage, fresh=True)
    machine.end(other)
    assert machine.folder(other).run_id == machine.folder(ref).run_id + ".2"
    assert machine.submit(stage) == other, "the newest run of this content is the one that is meant"


def test_submit_of_a_live_run_returns_it_and_many_at_once_start_one(machine: Machine) -> None:
    bundle = machine.bundle(script("train", "note('ran'); wait_for('go')"))
    with ThreadPoolExecutor(5) as pool:
        refs = set(pool.map(lambda _: Local().submit(bundle, runs=machine.runs), range(5)))
    assert len(refs) == 1
    ref = refs.pop()
    (machine.folder(ref).root / "go").touch()
    machine.end(ref)
    assert machine.notes(ref) == ["ran"]


def test_many_fresh_submits_at_once_start_as_many_runs(machine: Machine) -> None:
    bundle = machine.bundle(script("train", "note('ran')"))
    with ThreadPoolExecutor(3) as pool:
        refs = set(pool.map(lambda _: Local().submit(bundle, fresh=True, runs=machine.runs), range(3)))
    assert len(refs) == 3
    assert [machine.end(ref).phase for ref in refs] == ["SUCCEEDED"] * 3
    assert [machine.notes(ref) for ref in refs] == [["ran"]] * 3


def test_an_error_of_the_user_is_not_retried_and_stands_on_top_with_its_line(
    machine: Machine, tmp_path: Path
) -> None:
    code = "note('ran'); (run / 'logs/1/rank-1.log').write_text(open(sys.argv[1]).read()); sys.exit(1)"
    log = tmp_path / "rank.log"
    log.write_text(
        'Traceback (most recent call last):\n  File "/my/train.py", line 12, in <module>\n    step()\n'
        "ValueError: bad batch\n"
    )
    ref = machine.submit(script("train", code, str(log)))
    state = machine.end(ref)
    assert (state.phase, state.rank) == ("FAILED", 1)
    assert state.reason is not None
    assert state.reason.sentence == "rank 1: ValueError: bad batch (/my/train.py:12)."
    assert state.reason.class_ == "user-error"
    assert "resume" in state.reason.next_step
    assert machine.notes(ref) == ["ran"]


def test_a_crash_is_retried_from_its_own_budget_and_then_fails(machine: Machine) -> None:
    code = "note(attempt); os.kill(os.getpid(), signal.SIGSEGV)"
    ref = machine.submit(script("train", code), retry={"user": 5, "infrastructure": 2})
    state = machine.end(ref)
    assert machine.notes(ref) == ["1", "2", "3"]
    assert (state.phase, state.attempt) == ("FAILED", 3)
    assert state.reason is not None
    assert "SIGSEGV" in state.reason.sentence
    restarts = [event for event in Local().events(ref) if event["kind"] == "restarted"]
    assert [event["attempt"] for event in restarts] == [2, 3]


def test_exit_75_resumes_without_using_a_budget(machine: Machine) -> None:
    code = "note(attempt); sys.exit(75 if attempt < 4 else 0)"
    ref = machine.submit(script("train", code), retry={"user": 0, "infrastructure": 0})
    assert machine.end(ref).phase == "SUCCEEDED"
    assert machine.notes(ref) == ["1", "2", "3", "4"]


def test_a_script_that_always_leaves_with_75_does_not_run_for_ever(machine: Machine) -> None:
    ref = machine.submit(script("train", "note(attempt); sys.exit(75)"), retry={"user": 0, "infrastructure": 1})
    assert machine.end(ref).phase == "FAILED"
    assert len(machine.notes(ref)) == 7  # the first, five that are free, one from the budget


def test_a_report_that_fails_does_not_fail_the_run(machine: Machine) -> None:
    ref = machine.submit(script("train", ""), script("report", "sys.exit(1)", required=False))
    state = machine.end(ref)
    assert state.phase == "SUCCEEDED"
    assert state.reason is not None
    assert "report failed" in state.reason.sentence


def test_cancel_saves_and_resume_goes_on_where_it_stood(machine: Machine) -> None:
    first = script("prepare", "note('prepared')")
    train = script("train", UNTIL_STOPPED.replace("note(f", "sys.exit(0) if attempt > 1 else note(f"))
    ref = machine.submit(first, train, script("finish", "note('finished')"))
    pid = machine.training(ref)
    state = Local().cancel(ref)
    assert (state.phase, state.attempt) == ("CANCELLED", 1)
    assert gone(pid)
    assert machine.notes(ref)[-1] == "saved"
    assert Local().resume(ref) == ref
    state = machine.end(ref)
    assert (state.phase, state.attempt) == ("SUCCEEDED", 2)
    assert machine.notes(ref)[-2:] == ["prepared", "finished"]


def test_what_does_not_stop_in_its_grace_is_killed_with_all_it_started(machine: Machine) -> None:
    worker = "import time; time.sleep(600)"
    code = f"""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-S", "-c", {worker!r}], start_new_session=True)
    note(f"worker {{child.pid}}")
    note(f"training {{os.getpid()}}")
    while True: time.sleep(60)
    """
    ref = machine.submit(script("train", code))
    pid = machine.training(ref)
    worker_pid = int(machine.notes(ref)[0].split()[1])
    assert Local().cancel(ref, grace_seconds=0.2).phase == "CANCELLED"
    assert gone(pid)
    assert gone(worker_pid)


def test_a_sigterm_that_no_user_asked_for_saves_and_is_called_preempted(machine: Machine) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    machine.training(ref)
    send(machine.record(ref).supervisor, signal.SIGTERM)
    state = machine.end(ref)
    assert state.phase == "FAILED"
    assert state.reason is not None
    assert state.reason.class_ == "preempted"
    assert machine.notes(ref)[-1] == "saved"


def test_a_killed_supervisor_takes_training_with_it_which_saves_first(machine: Machine) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    pid = machine.training(ref)
    send(machine.record(ref).supervisor, signal.SIGKILL)
    state = machine.end(ref)
    assert state.phase == "FAILED"
    assert state.reason is not None
    assert state.reason.id == "local-supervisor-gone"
    assert f"trainwright resume {machine.folder(ref).run_id}" in state.reason.next_step
    until(lambda: gone(pid), "the end of training")
    assert machine.notes(ref)[1:] == ["saved"], "told once: a second SIGTERM could cut the save short"
    Local().resume(ref)
    assert machine.training(ref, times=2) != pid
    assert machine.status(ref).attempt == 2
    assert Local().cancel(ref).phase == "CANCELLED"


def test_a_run_reaches_its_end_though_its_supervisor_is_killed_in_every_stage(machine: Machine) -> None:
    code = """
    name = sys.argv[1]
    if (run / name).exists():
        note(name)
    else:
        (run / name).touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    """
    names = ["prepare", "train", "finish", "report"]
    ref = machine.submit(*(script(name, code, name) for name in names))
    for _ in names:
        assert machine.end(ref).phase == "FAILED"
        Local().resume(ref)
    assert machine.end(ref).phase == "SUCCEEDED"
    assert [note for note in machine.notes(ref) if note != "prepare"] == ["train", "finish", "report"]


LAUNCHER = """
code = '''
import os, pathlib, signal, sys, time
run = pathlib.Path(os.environ["TRAINWRIGHT_RUN_DIR"])
def stop(*_):
    (run / "worker-saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
(run / "worker").write_text(str(os.getpid()))
time.sleep(600)
'''
if attempt == 1:
    subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True)
    wait_for("worker")
    note(f"training {os.getpid()}")
    time.sleep(600)
else:
    pid = (run / "worker").read_text()
    alive = os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    note(f"worker alive: {alive}")
"""


def test_workers_of_a_killed_launcher_are_ended_before_the_restart(machine: Machine) -> None:
    ref = machine.submit(script("train", LAUNCHER))
    kill(machine.training(ref))
    assert machine.end(ref).phase == "SUCCEEDED"
    assert machine.notes(ref)[-1] == "worker alive: False"
    assert (machine.folder(ref).root / "worker-saved").exists()


def test_workers_end_when_supervisor_and_launcher_are_killed_together(machine: Machine) -> None:
    ref = machine.submit(script("train", LAUNCHER))
    launcher = machine.training(ref)
    send(machine.record(ref).supervisor, signal.SIGKILL)
    kill(launcher)
    worker = int((machine.folder(ref).root / "worker").read_text())
    until(lambda: gone(worker), "the end of the worker")
    assert (machine.folder(ref).root / "worker-saved").exists()
    Local().resume(ref)
    machine.end(ref)
    assert machine.notes(ref)[-1] == "worker alive: False"


def test_a_supervisor_that_hangs_is_killed_by_cancel(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainwright.targets.local.target._SLACK_SECONDS", 0.5)
    ref = machine.submit(script("train", UNTIL_STOPPED))
    pid = machine.training(ref)
    supervisor = machine.record(ref).supervisor
    send(supervisor, signal.SIGSTOP)
    Local().cancel(ref, grace_seconds=0.1)
    assert gone(supervisor.pid)
    until(lambda: gone(pid), "the end of training")


def test_cancel_of_what_nobody_supervises_any_more_writes_that_it_is_over(machine: Machine) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    pid = machine.training(ref)
    send(machine.record(ref).supervisor, signal.SIGKILL)
    until(lambda: gone(pid), "the end of training")
    until(lambda: Local().cancel(ref).phase == "CANCELLED", "the cancel")
    assert Local().cancel(ref).phase == "CANCELLED"


def test_cancel_now_ends_what_a_dead_supervisor_has_left_without_its_grace(machine: Machine) -> None:
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); note(f'training {os.getpid()}'); time.sleep(600)"
    overrides = {"grace_seconds": 600, "restart_delay_seconds": 0}
    ref = machine.submit(script("train", code), target={"name": "local", "overrides": overrides})
    pid = machine.training(ref)
    send(machine.record(ref).supervisor, signal.SIGKILL)
    until(lambda: machine.status(ref).final, "the end of the supervisor")
    assert not gone(pid)
    assert Local().cancel(ref, grace_seconds=0).phase == "CANCELLED"
    assert gone(pid)


def test_a_live_run_cannot_be_resumed_with_another_spec(machine: Machine) -> None:
    ref = machine.submit(script("train", "wait_for('go')"))
    with pytest.raises(AnswerNo, match=r"cannot be changed under it.*cancel"):
        Local().resume(ref, machine.bundle(script("train", "")))
    (machine.folder(ref).root / "go").touch()
    machine.end(ref)
    Local().resume(ref, machine.bundle(script("train", "note('longer')")))
    assert machine.end(ref).attempt == 2
    assert machine.notes(ref) == ["longer"]


def test_env_secrets_and_arguments_arrive_byte_for_byte(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hf_not_a_real_one")
    monkeypatch.setenv("RANK", "7")
    args = ["a b", "", "$HOME", "$(touch x)", "line\nbreak", "'\"`\\", "ünïcode ✓", "--x=*", "yes", "0x1f", "~"]
    code = "import json; (run / 'seen').write_text(json.dumps([sys.argv[1:], dict(os.environ)]))"
    values = {"env": {"GREETING": "a 'b' $c\n"}, "secrets": {"HF_TOKEN": {"env": "MY_TOKEN"}}}
    ref = machine.submit(script("train", code, *args), **values)
    assert machine.end(ref).phase == "SUCCEEDED"
    seen_args, environment = json.loads((machine.folder(ref).root / "seen").read_text())
    assert seen_args == args
    assert environment["GREETING"] == "a 'b' $c\n"
    assert environment["HF_TOKEN"] == "hf_not_a_real_one"
    assert "RANK" not in environment, "an outer torchrun's rank would make ours join its job"
    everything = b"".join(p.read_bytes() for p in machine.runs.rglob("*") if p.is_file() and p.name != "seen")
    assert b"hf_not_a_real_one" not in everything


def test_a_missing_secret_is_told_before_anything_starts(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    secrets = {"A": {"env": "NOT_THERE"}, "B": {"file": "/nowhere/b"}, "C": {"kubernetes": "x/y"}}
    with pytest.raises(InputError) as raised:
        machine.submit(script("train", ""), secrets=secrets)
    assert [problem.field for problem in raised.value.problems] == ["secrets.A", "secrets.B", "secrets.C"]
    assert not list(machine.runs.glob("*/job.json"))


def test_a_folder_of_any_name_holds_runs(machine: Machine, tmp_path: Path) -> None:
    machine.runs = tmp_path / "a b'\"$HOME;ü\n%s"
    ref = machine.submit(script("train", "note(sys.argv[1] == str(run))", "$TRAINWRIGHT_RUN_DIR"))
    assert machine.end(ref).phase == "SUCCEEDED"
    assert machine.notes(ref) == ["True"]
    assert JobRef.parse(str(ref)) == ref


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    machine.runs = tmp_path / "file" / "runs"
    with pytest.raises(SystemUnreachable, match="cannot be written"):
        machine.submit(script("train", ""))


def test_a_command_that_does_not_exist_fails_as_the_users_error(machine: Machine) -> None:
    from trainwright.targets.local.stages import Stage

    ref = machine.submit(Stage("train", ("/no/such/program",)))
    state = machine.end(ref)
    assert state.phase == "FAILED"
    assert state.reason is not None
    assert "/no/such/program" in state.reason.sentence


#: From here on the supervisor, and what it starts, can write no byte: each write fails as on a full disk.
FULL_DISK = "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_FSIZE, (0, -1))"
FREE_DISK = """
import resource
for pid in (0, os.getppid()):
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (-1, -1))
note("freed")
"""


def test_training_goes_on_when_the_supervisor_cannot_write_for_a_while(machine: Machine) -> None:
    ref = machine.submit(script("train", FULL_DISK), script("finish", FREE_DISK))
    assert machine.end(ref).phase == "SUCCEEDED"
    assert machine.notes(ref) == ["freed"]
    stages = [event["stage"] for event in Local().events(ref) if event["kind"] == "started"]
    assert stages == ["train"], "the second start could not be written down"


def test_the_last_word_waits_for_a_disk_that_is_full(machine: Machine) -> None:
    ref = machine.submit(script("train", "note(f'training {os.getpid()}'); wait_for('go'); " + FULL_DISK))
    child, supervisor = machine.training(ref), machine.record(ref).supervisor.pid
    (machine.folder(ref).root / "go").touch()
    until(lambda: gone(child), "the end of the script")
    assert machine.status(ref).phase == "RUNNING"
    resource.prlimit(supervisor, resource.RLIMIT_FSIZE, (-1, -1))
    assert machine.end(ref).phase == "SUCCEEDED"


def test_damage_to_job_json_is_told_and_healed_by_resume(machine: Machine) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    machine.training(ref)
    job = machine.folder(ref).job_file
    job.write_bytes(b'{"v": 1, "attempt": \xff')
    state = machine.status(ref)
    assert state.phase == "RUNNING"
    assert state.reason is not None
    assert state.reason.id == "local-unreadable"
    assert Local().resume(ref) == ref, "it lives: there is nothing to resume, and nobody waits for its lock"
    assert Local().cancel(ref).phase == "CANCELLED", "who supervises is also written in the lock"
    job.write_bytes(b"[]")
    assert machine.status(ref).phase == "FAILED"
    Local().resume(ref)
    machine.training(ref, times=2)
    assert machine.status(ref).attempt == 2, "attempts are also counted by their logs"
    Local().cancel(ref)


def test_logs_of_all_attempts_are_told_by_source_and_followed_to_the_end(machine: Machine) -> None:
    code = """
    (run / f"logs/{attempt}/rank-0.log").write_text(f"rank zero {attempt}\\n")
    print("launcher", flush=True)
    sys.exit(75 if attempt == 1 else 0)
    """
    ref = machine.submit(script("train", code))
    followed = [(line.attempt, line.source, line.text) for line in Local().logs(ref, follow=True)]
    assert followed == [
        (1, "train", "launcher"),
        (1, "rank 0", "rank zero 1"),
        (2, "train", "launcher"),
        (2, "rank 0", "rank zero 2"),
    ]
    assert [line.text for line in Local().logs(ref, rank=0)] == ["rank zero 1", "rank zero 2"]
    with pytest.raises(InputError, match="there are ranks 0"):
        Local().logs(ref, rank=3)
