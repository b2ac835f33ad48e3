"""What happens inside a pod: stages started, ends judged, gangs ended together, last words told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kubernetes_specs import own_script, plan_of

from trainwright.runs.events import read_events
from trainwright.runs.failures import Failure
from trainwright.runs.folder import RunFolder
from trainwright.spec.model import Retry
from trainwright.spec.write import spec_to_yaml
from trainwright.targets.kubernetes import pod
from trainwright.targets.kubernetes.attempts import Member
from trainwright.targets.kubernetes.pod import Ended, Supervisor, judge, message


def ended(code: int, *failures: Failure, **given: Any) -> Ended:
    values = {
        "node": 0, "processes": 8, "stopped": False, "broken": False, "retry": Retry(), "events": (), "saved": None,
        "stage": "train", **given,
    }  # fmt: skip
    return judge(code, failures, **values)


def resumes(count: int, saved: int | None = None) -> list[dict[str, Any]]:
    return [
        {"rank": "s", "stage": "train", "class": "resume", "saved": saved, "attempt": n + 1} for n in range(count)
    ]


ECHO = Failure("Connection reset by peer", rank=0, echo=True)


@pytest.mark.parametrize(
    ("code", "failures", "given", "leave", "class_"),
    [
        (0, [], {}, 0, "finished"),
        (1, [Failure("ValueError: no", "train.py:3", 2)], {}, 1, "user"),
        (2, [], {}, 2, "user"),
        (76, [Failure("loss is not finite", rank=0)], {}, 76, "user"),
        (1, [Failure("ValueError: no", rank=2)], {"retry": Retry(user=1)}, 70, "user"),
        (75, [], {}, 75, "resume"),
        (77, [], {}, 77, "infrastructure"),
        (70, [], {}, 70, "infrastructure"),
        (-11, [], {}, 70, "infrastructure"),
        # what another node began is told by that node; this one only asks to go on
        (1, [Failure("Connection reset by peer", rank=0, echo=True)], {}, 75, "resume"),
        (1, [Failure("ValueError: no", rank=9)], {}, 75, "resume"),
        (1, [Failure("ValueError: no", rank=9)], {"node": 1}, 1, "user"),
        (1, [ECHO, Failure("ValueError: no", rank=9)], {}, 75, "resume"),
        # its own ranks left no exception: it crashed, and others only felt it
        (70, [ECHO], {"node": 1}, 70, "infrastructure"),
        (70, [], {"broken": True}, 75, "resume"),
        (1, [], {"stopped": True}, 75, "resume"),
    ],
)
def test_an_end_is_judged_where_it_began(
    code: int, failures: list[Failure], given: dict[str, Any], leave: int, class_: str
) -> None:
    end = ended(code, *failures, **given)
    assert (end.leave, end.class_, end.code) == (leave, class_, code)


def test_the_budget_for_errors_of_the_user_is_counted_over_attempts() -> None:
    before = [{"rank": "s", "stage": "train", "class": "user", "saved": None, "attempt": 1}]
    assert ended(1, retry=Retry(user=1), events=before).leave == 1
    assert ended(1, retry=Retry(user=2), events=before).leave == 70


def test_a_gang_that_resumes_for_ever_without_progress_is_counted() -> None:
    assert ended(75, events=resumes(4)).leave == 75
    assert ended(75, events=resumes(5)).leave == 70
    assert ended(75, events=resumes(5), saved=10).leave == 75, "a new checkpoint is progress"
    assert ended(75, events=resumes(5), stopped=True).leave == 75, "a pod that was asked to go is not at fault"


def test_the_last_words_fit_into_what_kubernetes_keeps() -> None:
    failure = Failure("é" * 9000, "train.py:3", 2)
    text = message("train", 2, 1, Ended(1, 1, "user", failure, 40))
    assert len(text.encode()) <= 4096
    told = json.loads(text)
    assert told["exception"].startswith("éé")
    del told["exception"]
    assert told == {
        "v": 1, "stage": "train", "attempt": 2, "node": 1, "code": 1, "class": "user", "rank": 2,
        "line": "train.py:3", "saved": 40,
    }  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "demo-00000000")
    for path in (folder.events, folder.logs):
        path.mkdir(parents=True)
    return folder


def supervisor(run: RunFolder, node: int = 0, ranks: range = range(0)) -> Supervisor:
    member = Member(run, "train", node, "d")
    return Supervisor(run, member, member.start(), ranks)


def test_output_of_the_verb_and_of_every_rank_reaches_the_pods_log(
    run: RunFolder, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    one = supervisor(run, ranks=range(8, 10))
    script = f"import pathlib; p=pathlib.Path({str(run.logs)!r})/'1'; print('started', flush=True)\n"
    script += "(p/'rank-9.log').write_bytes(b'step 1\\n\\xff\\n'); raise SystemExit(3)"
    assert one.execute([sys.executable, "-c", script], dict(os.environ)) == 3
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert sorted(lines) == ["[rank 9] step 1", "[rank 9] \ufffd", "started"]
    assert run.stage_log(1, "train").read_text() == "started\n"


def test_a_node_is_ended_when_its_gang_is_broken(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod, "_WATCH_SECONDS", 0.0)
    monkeypatch.setattr(pod, "_PATIENCE_SECONDS", 0.0)
    one = supervisor(run)
    Member(run, "train", 1, "d").end(1, 70)
    hangs = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    assert one.execute([sys.executable, "-c", hangs], dict(os.environ)) == -signal.SIGKILL
    assert one.broken


def test_nothing_outlives_a_launcher_that_is_killed(run: RunFolder) -> None:
    one = supervisor(run)
    kept = run.root / "pid"
    leaves = (
        "import os, pathlib, subprocess, sys\n"
        "rank = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"pathlib.Path({str(kept)!r}).write_text(str(rank.pid)); os.kill(os.getpid(), 9)"
    )
    assert one.execute([sys.executable, "-c", leaves], dict(os.environ)) == -9
    state = Path(f"/proc/{kept.read_text()}/stat")
    assert not state.exists() or " Z " in state.read_text()


def test_a_signal_reaches_the_verb(run: RunFolder) -> None:
    one = supervisor(run)
    before = {number: signal.getsignal(number) for number in pod._PASSED_ON}
    saves = (
        "import signal,sys,time; signal.signal(15, lambda *a: sys.exit(75)); print('up', flush=True); time.sleep(600)"
    )

    def ask() -> None:
        while not run.stage_log(1, "train").is_file() or not run.stage_log(1, "train").read_text():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    try:
        one.listen()
        threading.Thread(target=ask, daemon=True).start()
        assert one.execute([sys.executable, "-c", saves], dict(os.environ)) == 75
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert one.stopped


def in_pod(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The module as a pod starts it, on a run of an own script that needs no accelerator."""
    spec = own_script(compute={"nodes": 1, "processes_per_node": 1})
    config = tmp_path / "config"
    config.mkdir(exist_ok=True)
    (config / "spec.yaml").write_text(spec_to_yaml(spec))
    (config / "plan.json").write_text(plan_of(spec, 1).to_json())
    environment = {
        **os.environ, "TRAINWRIGHT_CONFIG": str(config), "TRAINWRIGHT_TERMINATION": str(tmp_path / "last"),
        "TRAINWRIGHT_RUN_DIR": str(tmp_path / "runs" / "demo-00000000"), "PATH": os.environ["PATH"],
    }  # fmt: skip
    command = [sys.executable, "-P", "-m", "trainwright.targets.kubernetes.pod", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)


def test_a_stage_installs_spec_and_plan_and_tells_how_it_ended(tmp_path: Path) -> None:
    done = in_pod(tmp_path, "prepare")  # an own script has no data: an error of the user
    run = RunFolder(tmp_path / "runs" / "demo-00000000")
    assert run.spec().name == "demo"
    assert run.plan().layout.world_size == 1
    assert done.returncode == 2, done.stdout + done.stderr
    told = json.loads((tmp_path / "last").read_text())
    assert (told["stage"], told["code"], told["class"]) == ("prepare", 2, "user")
    assert [event["kind"] for event in read_events(run.events)] == ["started", "failed", "finished"]
    assert in_pod(tmp_path, "finish").returncode == 0, "the report of a run that never trained may fail"
    assert read_events(run.events)[-1]["phase"] == "SUCCEEDED"


def test_a_storage_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    done = in_pod(tmp_path, "prepare")
    assert done.returncode == 3
    assert "kubernetes.user" in done.stderr
    assert in_pod(tmp_path, "prepare", "--again-above-128").returncode == 131


def test_operators_that_stop_below_128_get_codes_above_it_only_for_what_is_tried_again(tmp_path: Path) -> None:
    assert in_pod(tmp_path, "prepare", "--again-above-128").returncode == 2
