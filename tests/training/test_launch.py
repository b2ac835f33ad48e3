"""Starting ranks: exit codes, signals, the user's own script, and the first error of a failed run."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from training.tiny import make_run, train
from trainwright.errors import InputError, SystemUnreachable
from trainwright.runs.events import EventLog, read_events
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.folder import RunFolder
from trainwright.training.guard import NonFinite
from trainwright.training.launch import combine, command, obeyed, processes_per_node, threads_per_process
from trainwright.training.profiler import parse_steps
from trainwright.training.worker import CRASH, report


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ({0: 0, 1: 0}, 0),
        ({0: 75, 1: 75}, 75),
        ({0: 1, 1: -15}, 1),
        ({0: -15, 1: 76}, 76),
        ({0: 70, 1: 1}, 1),
        ({0: 70, 1: -9}, 70),
        ({0: -9, 1: -15}, CRASH),
        ({0: 75, 1: -9}, CRASH),  # killed for memory; the other was ended because of it, and saved
        ({0: 75, 1: 1}, 1),
        ({0: 75, 1: 70}, 70),
        ({0: 77, 1: 70}, 77),
        ({0: 3, 1: -15}, 3),
    ],
)
def test_one_exit_code_from_those_of_the_ranks(codes: dict[int, int], code: int) -> None:
    assert combine(codes) == code


@pytest.mark.parametrize(
    ("codes", "code"),
    [({0: 75, 1: -9}, 75), ({0: 75, 1: 1}, 75), ({0: 76, 1: 75}, 76), ({0: -9, 1: -9}, CRASH), ({0: 1, 1: 0}, 1)],
)
def test_whoever_saved_speaks_for_all_once_the_launcher_is_asked_to_stop(codes: dict[int, int], code: int) -> None:
    assert combine(codes, stopped=True) == code


def test_only_death_by_a_signal_that_is_passed_on_is_obedience() -> None:
    codes = {number: -number for number in range(1, 16)}
    asked = {rank for rank, code in obeyed(codes).items() if code == 75}
    assert asked == {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1}


def test_threads_are_cores_over_processes_and_at_least_one() -> None:
    cores = len(os.sched_getaffinity(0))
    assert threads_per_process(1) == cores
    assert threads_per_process(cores) == threads_per_process(cores * 3) == 1


@pytest.mark.parametrize(("text", "steps"), [("10..12", [10, 11, 12]), ("1..1", [1])])
def test_profiled_steps(text: str, steps: list[int]) -> None:
    assert list(parse_steps(text)) == steps


@pytest.mark.parametrize("text", ["10", "3..2", "0..2", "a..b"])
def test_steps_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"10\.\.12"):
        parse_steps(text)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (ValueError("bad"), TrainExit.USER_ERROR, "user-error"),
        (NonFinite("the loss of step 3 is not finite"), TrainExit.NON_FINITE, "non-finite"),
        (MemoryError(), TrainExit.USER_ERROR, "oom"),
        (RuntimeError("[gloo] Connection closed by peer [::1]:2222"), CRASH, "network"),
        (RuntimeError("Timed out waiting 1800000ms for recv operation"), TrainExit.HUNG_COLLECTIVE, "network"),
        (RuntimeError("CUDA error: uncorrectable ECC error encountered"), CRASH, "hardware"),
        (RuntimeError("CUDA error: unspecified launch failure"), CRASH, "hardware"),
        (RuntimeError("CUDA error: device-side assert triggered"), TrainExit.USER_ERROR, "user-error"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), TrainExit.USER_ERROR, "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_EXECUTION_FAILED"), CRASH, "hardware"),
        (RuntimeError("NCCL communicator was aborted on rank 3"), CRASH, "network"),
        (RuntimeError("NCCL error: unhandled system error"), CRASH, "network"),
        (OSError(errno.ESTALE, "Stale file handle"), CRASH, "volume"),
        (OSError(errno.ENOSPC, "No space left on device"), CRASH, "volume"),
        (FileNotFoundError(errno.ENOENT, "No such file"), TrainExit.USER_ERROR, "user-error"),
        (SystemUnreachable("s3://data cannot be reached", "check the network"), CRASH, "network"),
    ],
)
def test_how_an_error_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], error: Exception, code: int, kind: str
) -> None:
    events = EventLog(tmp_path, "run", 1, 0)
    with pytest.raises(type(error)) as raised:
        raise error
    assert report(raised.value, events) == code
    (event,) = read_events(tmp_path)
    assert (event["class"], event["code"]) == (kind, code)
    assert event["line"].startswith(__file__)
    assert str(error) in event["exception"]
    assert str(error) in capfd.readouterr().err


def test_a_connection_that_ends_while_stopping_is_no_failure(tmp_path: Path) -> None:
    error = RuntimeError("Connection closed by peer")
    assert report(error, EventLog(tmp_path, "run", 1, 0), asked_to_stop=True) == TrainExit.RESUME_ME


def test_an_own_script_gets_its_arguments_byte_for_byte(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, data=None, model=None,
        train={"script": "/x/train.py", "args": ["--a b", "$HOME", "{}"]},
    )  # fmt: skip
    assert command(run.spec()) == (sys.executable, "-u", "/x/train.py", "--a b", "$HOME", "{}")


def test_ranks_that_nodes_cannot_share_equally_are_refused(tmp_path: Path, tiny_model: Path, tiny_text: Path) -> None:
    run = make_run(tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"dp_replicate": 3})
    assert processes_per_node(run, run.spec(), 3) == 1
    with pytest.raises(InputError, match="layout has 3 ranks"):
        processes_per_node(run, run.spec(), 2)


def wait_for_steps(run: RunFolder, count: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if run.metrics.exists() and run.metrics.read_text().count('"kind":"step"') >= count:
            return
        time.sleep(0.05)
    raise AssertionError(f"no step within two minutes: {[path.read_text() for path in run.logs.rglob('*.log')]}")


#: SIGTERM is what every scheduler sends; the others take the same way.
SIGNALS = [
    signal.SIGTERM, *(pytest.param(other, marks=pytest.mark.slow) for other in (signal.SIGUSR1, signal.SIGHUP)),
]  # fmt: skip


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_to_the_launcher_saves_on_all_ranks_and_the_run_goes_on(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, number: signal.Signals
) -> None:
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"dp_replicate": 2}, duration="40 steps",
        checkpoint={"every": "1000 steps"},
    )  # fmt: skip
    process = train(run, wait=False)
    wait_for_steps(run, 3)
    process.send_signal(number)
    assert process.wait(60) == TrainExit.RESUME_ME
    (saved,) = run.checkpoints.glob("step-*")
    step = json.loads((saved / "manifest.json").read_text())["step"]
    assert 3 <= step < 40
    signals = [event for event in read_events(run.events) if event.get("signal")]
    assert {event["signal"] for event in signals} == {number.name}
    again = train(run, 2)
    assert again.returncode == TrainExit.FINISHED
    steps = [json.loads(line)["step"] for line in run.metrics.read_text().splitlines() if '"kind":"step"' in line]
    assert steps == list(range(1, 41)), "steps were lost or repeated"
    assert run.rank_log(2, 1).exists()


def test_an_own_script_runs_on_all_ranks_and_its_first_error_is_found(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    script = tmp_path / "own.py"
    script.write_text(
        "import os, sys, time\n"
        "e = os.environ; print('rank', e['RANK'], 'of', e['WORLD_SIZE'], e['TRAINWRIGHT_RUN_DIR'], sys.argv[1:])\n"
        "if os.environ['RANK'] == '1':\n"
        "    raise KeyError('no such column')\n"
        "time.sleep(60)\n"
    )
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"dp_replicate": 2}, data=None, model=None,
        train={"script": str(script), "args": ["--depth", "3", "$$ ${local_rank} $(x)"]},
    )  # fmt: skip
    process = train(run)
    assert process.returncode == TrainExit.USER_ERROR
    said = run.rank_log(1, 0).read_text()
    assert f"rank 0 of 2 {run.root} ['--depth', '3', '$$ ${{local_rank}} $(x)']" in said
    assert process.stdout is not None
    said = process.stdout.read()
    assert "rank 1: KeyError: 'no such column'" in said
    assert f"{script}:4" in said


def test_a_run_that_silently_fell_back_to_tcp_ends_at_once_and_says_why(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "own.py"  # does what NCCL does in its first collective, and then trains for ever
    script.write_text(
        "import os, socket, time\n"
        "name = os.environ['NCCL_DEBUG_FILE'].replace('%h', socket.gethostname()).replace('%p', str(os.getpid()))\n"
        "open(name, 'w').write('n1:1:2 [0] NCCL INFO Using network Socket\\n')\n"
        "time.sleep(600)\n"
    )
    monkeypatch.setenv("TRAINWRIGHT_NETWORK", "efa")
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"dp_replicate": 2}, data=None, model=None,
        train={"script": str(script)},
    )  # fmt: skip
    process = train(run)
    assert process.returncode == TrainExit.USER_ERROR
    (failed,) = [event for event in read_events(run.events) if event["kind"] == "failed"]
    assert failed["class"] == "network"
    assert "NCCL talks to the other nodes over plain TCP sockets, not over EFA" in failed["exception"]


@pytest.mark.parametrize(
    ("ending", "code", "told"),
    [
        ("print('disk quota of user 7 used up'); sys.exit(3)", 3,
         "rank 1: own.py ended with exit code 3; its last words: disk quota of user 7 used up"),
        ("sys.exit(3)", 3, "rank 1: own.py ended with exit code 3, and its log is empty"),
        ("os.kill(os.getpid(), 9)", CRASH,
         "rank 1: own.py ended by SIGKILL; out of memory, or somebody killed it"),
    ],
)  # fmt: skip
def test_a_script_that_ends_without_an_error_of_its_own_is_still_told(
    tmp_path: Path, tiny_model: Path, tiny_text: Path, ending: str, code: int, told: str
) -> None:
    script = tmp_path / "own.py"
    script.write_text(f"import os, sys, time\nif os.environ['RANK'] == '1':\n    {ending}\ntime.sleep(60)\n")
    run = make_run(
        tmp_path / "tiny-00000001", tiny_model, tiny_text, layout={"dp_replicate": 2}, data=None, model=None,
        train={"script": str(script)},
    )  # fmt: skip
    process = train(run)
    assert process.returncode == code
    assert process.stdout is not None
    assert process.stdout.read().rstrip().splitlines()[-1] == told, "the last line is what a screen shows"
    failed = [event for event in read_events(run.events) if event["kind"] == "failed"]
    assert [(event["rank"], event["exception"]) for event in failed] == [(1, told.removeprefix("rank 1: "))]
