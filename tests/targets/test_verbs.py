"""The verbs over real runs: what they print, their exit codes, and that Ctrl-C stops following alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from local_machine import UNTIL_STOPPED, Machine, gone, script, until

from trainwright.cli import main
from trainwright.targets.local.target import Local

Verb = Callable[..., tuple[int, str, str]]


@pytest.fixture
def verb(machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Verb:
    """Run a verb over the machine's runs; gives exit code, output and complaints."""
    monkeypatch.setenv("TRAINWRIGHT_RUNS", str(machine.runs))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main(list(arguments))
        printed = capsys.readouterr()
        return int(left.value.code or 0), printed.out, printed.err

    return run


def answer(verb: Verb, *arguments: str) -> Any:
    code, out, err = verb(*arguments, "-o", "json")
    assert code in (0, 1), err
    return json.loads(out)


def test_submit_starts_tells_and_tells_again_when_it_is_finished(machine: Machine, verb: Verb) -> None:
    bundle = str(machine.bundle(script("train", "print('hello', flush=True)")))
    code, out, _ = verb("submit", bundle)
    assert code == 0
    assert "trainwright logs -f job-" in out
    machine.end(Local().ref(next(iter_runs(machine))))
    code, out, _ = verb("submit", bundle)
    assert code == 0
    assert "SUCCEEDED" in out
    assert "--fresh starts another" in out
    assert answer(verb, "submit", bundle, "--fresh")["run"].endswith(".2")


def iter_runs(machine: Machine) -> Any:
    from trainwright.runs.folder import list_runs

    return iter(list_runs(machine.runs))


def test_status_ls_events_and_logs_agree_on_a_failed_run(machine: Machine, verb: Verb) -> None:
    ref = machine.submit(script("train", "print('about to fail', flush=True); raise ValueError('bad batch')"))
    machine.end(ref)
    name = machine.folder(ref).run_id
    code, out, _ = verb("status", name)
    assert code == 1, "a failed run is a no"
    first, second, *_ = out.splitlines()
    assert first.startswith(f"{name}  FAILED since ")
    assert "ValueError: bad batch (" in second
    assert f"trainwright resume {name}" in out
    state = answer(verb, "status", name)
    assert (state["phase"], state["reason"]["class"]) == ("FAILED", "user-error")
    assert "ValueError: bad batch" in verb("ls")[1]
    assert [run["phase"] for run in answer(verb, "ls")] == ["FAILED"]
    assert answer(verb, "ls", "--live") == []
    assert [event["kind"] for event in answer(verb, "events", name)] == ["started", "failed", "finished"]
    assert "exception=ValueError: bad batch" in verb("events", name)[1]
    code, out, _ = verb("logs", name)
    assert code == 0
    assert "  train | about to fail\n" in out
    code, _, err = verb("logs", name, "--rank", "0")
    assert code == 2
    assert "there is no log of rank 0" in err


def test_cancel_and_resume_by_verb(machine: Machine, verb: Verb) -> None:
    ref = machine.submit(script("train", UNTIL_STOPPED))
    machine.training(ref)
    name = machine.folder(ref).run_id
    assert verb("status")[0] == 0, "the newest run is meant when none is named"
    assert answer(verb, "cancel", name)["phase"] == "CANCELLED"
    code, out, _ = verb("resume", name)
    assert code == 0
    assert f"follow: trainwright logs -f {name}" in out
    pid = machine.training(ref, times=2)
    code, out, _ = verb("cancel", name, "--now")
    assert code == 0
    assert gone(pid)
    code, _, err = verb("cancel", name, "--grace", "soon")
    assert code == 2
    assert "'soon' is no duration" in err


def test_resume_takes_an_edit_that_keeps_the_curve_and_refuses_another(
    machine: Machine, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = machine.submit(script("train", "sys.exit(1)"))
    machine.end(ref)
    folder = machine.folder(ref)
    before = folder.spec_file.read_bytes()
    code, _, err = verb("resume", folder.run_id, "--set", "seed=7", "--set", "clip=0.5", "--set", "duration=3 steps")
    assert code == 2
    assert [line.split(": ")[1] for line in err.splitlines()] == ["clip", "seed"]
    assert folder.spec_file.read_bytes() == before
    monkeypatch.setattr(
        "trainwright.targets.local.target.stages_of", lambda spec: (script("train", f"note('{spec.duration}')"),)
    )
    assert verb("resume", folder.run_id, "--set", "duration=3 steps")[0] == 0
    state = machine.end(ref)
    assert (state.phase, state.attempt) == ("SUCCEEDED", 2)
    assert machine.notes(ref) == ["3 steps"]
    assert folder.plan().spec_sha256 == folder.spec().sha256


def test_an_unknown_run_names_the_nearest(machine: Machine, verb: Verb) -> None:
    ref = machine.submit(script("train", ""))
    machine.end(ref)
    name = machine.folder(ref).run_id
    for arguments in (["status"], ["logs"], ["events"], ["cancel"], ["resume"]):
        code, _, err = verb(*arguments, name.replace("job", "jbo"))
        assert code == 2
        assert f"did you mean {name}?" in err


def test_one_damaged_run_does_not_hide_the_others(machine: Machine, verb: Verb) -> None:
    for greeting in ("one", "two"):
        machine.end(machine.submit(script("train", ""), env={"GREETING": greeting}))
    first = next(iter_runs(machine))
    first.spec_file.write_text("{")
    first.job_file.unlink()
    (first.bundle / "bundle.json").unlink()
    assert sorted(run["phase"] for run in answer(verb, "ls")) == ["FAILED", "SUCCEEDED"]


def test_ctrl_c_stops_following_and_not_the_run(machine: Machine) -> None:
    ref = machine.submit(script("train", "print('step 1', flush=True)" + UNTIL_STOPPED))
    pid = machine.training(ref)
    name = machine.folder(ref).run_id
    follower = subprocess.Popen(
        [sys.executable, "-m", "trainwright", "logs", "-f", name],
        env={**os.environ, "TRAINWRIGHT_RUNS": str(machine.runs)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # who runs tests side by side has told its workers, and so their children, to ignore it
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert follower.stdout is not None
    assert follower.stdout.readline() == "  train | step 1\n"
    follower.send_signal(signal.SIGINT)
    _, complaints = follower.communicate(timeout=30)
    assert follower.returncode == 130
    assert f"trainwright logs -f {name}" in complaints
    assert f"trainwright cancel {name}" in complaints
    assert not gone(pid)
    Local().cancel(ref)
    until(lambda: gone(pid), "the end of training")
