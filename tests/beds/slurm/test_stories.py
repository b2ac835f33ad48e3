"""Runs on a real Slurm, start to end: trained, failed, killed, cancelled, timed out, submitted twice, watched."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from slurm_bed import Bed, Early, Run, pids_of, wait

from trainwright.runs.folder import find
from trainwright.runs.steps import saved_step
from trainwright.targets.slurm.client import Client
from trainwright.targets.slurm.state import Snapshot, state_of
from trainwright.targets.slurm.target import Slurm
from trainwright.targets.slurm.transport import Local
from trainwright.targets.slurm.watch import Watch


def tiny(bed: Bed, name: str, model: Path, text: Path, steps: int, **fields: Any) -> Path:
    """A spec of the built-in trainer on two nodes, whose losses depend on the order of its samples."""
    return bed.write(
        name,
        model=str(model),
        data={"sources": [str(text)], "eval_fraction": 0.2},
        sequence_length=24,
        duration=f"{steps} steps",
        global_batch_size=4,
        micro_batch_size=2,
        precision="fp32",
        schedule={"name": "constant", "warmup": "1 steps"},
        checkpoint={"every": "4 steps"},
        compute={"nodes": 2, "processes_per_node": 1},
        **fields,
    )


def losses(run: Run) -> dict[int, float]:
    """Loss of each step, as it was logged last."""
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


def judged(job: str) -> tuple[str, str, str]:
    """State of a job that trainwright did not render, and id and class of the reason that its end is given."""
    found = Client(Local()).jobs([job])[job]
    reason = state_of(Snapshot("x-00000001", {"train": found})).reason
    assert reason is not None
    return found.state, reason.id, reason.class_


def test_the_whole_pipeline_and_a_killed_worker(bed: Bed, tiny_model: Path, tiny_text: Path) -> None:
    """Stories 1, 3, 11 and 12: prepare, two nodes, register; then the same training with one rank killed."""
    registry = str(bed.here / "registry")
    spec = tiny(bed, "whole", tiny_model, tiny_text, 12, register={"name": "tiny", "path": registry})
    first = bed.start_cli("run", str(spec))
    killed = bed.submit(tiny(bed, "killed", tiny_model, tiny_text, 2000))  # beside it
    wait(lambda: (saved_step(killed.folder) or 0) >= 8, "a checkpoint")
    os.kill(pids_of(killed, "trainwright.training.worker")[-1], signal.SIGKILL)
    wait(lambda: len([e for e in killed.told("started") if e["stage"] == "train"]) == 2, "a second attempt")
    wait(lambda: killed.folder.rank_log(2, 0).exists(), "its ranks")
    wait(lambda: (saved_step(killed.folder) or 0) > 12 and max(losses(killed)) > 16, "steps of the second attempt")
    failed = killed.told("failed")
    assert [(event["stage"], event["class"]) for event in failed] == [("train", "infrastructure")]
    assert killed.status().phase == "RUNNING"
    assert "started again" in str(killed.status().reason)
    bed.slurm("scancel", *killed.jobs().values())  # enough of it: the processors are the other's

    text, _ = first.communicate(timeout=400)
    assert first.returncode == 0, text
    whole = Run(find("whole", bed.here / "runs"))
    assert whole.status().phase == "SUCCEEDED"
    assert whole.status().attempt == 1
    assert saved_step(whole.folder) == 12
    assert (bed.here / "registry" / "tiny" / "1").is_dir()
    assert whole.folder.report.is_file()
    assert [event["stage"] for event in whole.told("started")] == ["prepare", "train", "finish", "report"]
    assert {event["nodes"] for event in whole.told("started") if event["stage"] == "train"} == {"n[1-2]"}

    assert "rank 0 |" in bed.cli("logs", whole.folder.run_id)
    bed.cli("logs", whole.folder.run_id, "--rank", "1")
    jobs = whole.jobs()
    assert bed.submit(spec).folder == whole.folder
    assert whole.jobs() == jobs

    expected, got = losses(whole), losses(killed)
    assert {step: got[step] for step in expected} == expected


@pytest.mark.versions
def test_an_error_of_the_user_ends_the_run_and_is_told(bed: Bed) -> None:
    """Story 2."""
    run = bed.submit(bed.script("wrong", script="collective.py", args=("raise", "50"), nodes=2))
    state = run.wait_for("FAILED")
    assert state.reason is not None
    assert state.reason.class_ == "user-error"
    assert "ValueError: label 7 is outside of the vocabulary" in state.reason.sentence
    assert "collective.py:" in state.reason.sentence
    assert (state.rank, state.attempt) == (1, 1)
    wait(lambda: not bed.queue(), "the end of what waited for it")
    assert "FAILED" in bed.cli("status", run.folder.run_id, code=1)


def test_a_lost_node_is_replaced_and_the_run_goes_on(bed: Bed) -> None:
    """Story 4."""
    run = bed.submit(bed.script("lost", script="patient.py"))
    run.wait_until_it_says("from step 0")
    folder = run.folder.checkpoints / "step-00000001"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text('{"v": 1, "step": 1}')
    node = run.told("started")[0]["nodes"]
    options = ("--parsable", "--no-requeue", f"--nodelist={node}", "--output=/dev/null", "--wrap=sleep 600")
    beside = bed.slurm("sbatch", *options).strip()
    wait(lambda: "RUNNING" in bed.slurm("squeue", f"--jobs={beside}", "--format=%T"), "a job beside the run")
    bed.on(node, "ip", "link", "set", "eth0", "down")
    try:
        for pid in bed.on(node, "ip", "netns", "pids", f"tw-slurm-{node}").split():
            os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        state = run.wait_for("SUCCEEDED")
    finally:
        bed.on(node, "ip", "link", "set", "eth0", "up")
        bed.up()
    assert state.attempt == 2
    assert [(e["class"], e["nodes"]) for e in run.told("failed")] == [("node-lost", [node])]
    assert judged(beside) == ("NODE_FAIL", "slurm-state-nodefail", "node-lost")
    assert f"on {node}" not in run.log(2)
    assert "from step 1" in run.log(2)


@pytest.mark.versions
def test_a_cancelled_run_saves_first_and_can_be_resumed(bed: Bed) -> None:
    """Story 5."""
    run = bed.submit(bed.script("stop", script="patient.py"))
    run.wait_until_it_says("from step 0")
    assert "CANCELLED" in bed.cli("cancel", run.folder.run_id)
    assert "SIGTERM" in run.log(1)
    step = saved_step(run.folder)
    assert step is not None
    state = run.status()
    assert state.reason is not None
    assert f"saved at step {step}" in state.reason.sentence
    assert not bed.queue()
    bed.cli("resume", run.folder.run_id)
    assert run.wait_for("SUCCEEDED").attempt == 2
    assert f"from step {step}" in run.log(2)


@pytest.mark.versions
@pytest.mark.late
@pytest.mark.usefixtures("bed")
def test_a_run_goes_on_after_its_time_limit(early: Early) -> None:
    """Story 7."""
    run = early.run
    state = run.wait_for("SUCCEEDED")
    assert state.attempt >= 2  # more when its node was lost to another story meanwhile
    logs = [run.log(attempt + 1) for attempt in range(state.attempt)]
    assert any("SIGUSR1" in log for log in logs)  # not the first, when it came before Python listened
    assert run.told("restarted")[0]["then"] == "requeue"
    assert re.match(r"from step [1-9]", logs[-1])


def test_a_preempted_run_saves_and_comes_back(bed: Bed) -> None:
    overrides = {"train": {"partition": "low", "cpus-per-task": 7, "exclude": "n2"}}
    run = bed.submit(bed.script("preempted", script="patient.py", target={"name": "slurm", "overrides": overrides}))
    options = ("--parsable", "--no-requeue", "--partition=low", "--exclude=n2", "--output=/dev/null")
    beside = bed.slurm("sbatch", *options, "--wrap=sleep 600").strip()
    run.wait_until_it_says("from step 0")
    bed.slurm("sbatch", "--exclude=n2", "--cpus-per-task=8", "--time=2", "--output=/dev/null", "--wrap=sleep 5")
    state = run.wait_for("SUCCEEDED")
    assert state.attempt == 2
    assert "SIGTERM" in run.log(1)
    assert run.told("failed") == []
    assert judged(beside) == ("PREEMPTED", "slurm-state-preempted", "preempted")


def test_a_node_that_fails_twice_is_left_out(bed: Bed) -> None:
    run = bed.submit(bed.script("avoid", script="dies_on.py", args=("n1",), retry={"infrastructure": 3}))
    state = run.wait_for("SUCCEEDED")
    assert state.attempt == 3
    assert [event["nodes"] for event in run.told("failed")] == [["n1"], ["n1"]]
    assert [event["exclude"] for event in run.told("restarted")] == ["n1"]
    assert "on n2" in run.log(3)
    assert "ExcNodeList=n1" in bed.slurm("scontrol", "show", "job", run.told("started")[2]["job"])


@pytest.mark.versions
def test_two_submits_at_once_are_one_run(bed: Bed) -> None:
    """Story 8."""
    spec = bed.script("twice", script="patient.py", site={"partition": "down"})
    bundle = bed.here / "bundle"
    bed.cli("render", str(spec), "--dir", str(bundle))
    both = [bed.start_cli("submit", str(bundle), "-o", "json") for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert answers[0]["ref"] == answers[1]["ref"]
    assert answers[0]["phase"] == "PENDING"
    assert sorted(bed.queue().values()) == [f"{answers[0]['run']}.finish", f"{answers[0]['run']}.train"]


@pytest.mark.versions
def test_jobs_of_a_submit_that_was_killed_are_found_again(bed: Bed) -> None:
    run = bed.submit(bed.script("orphan", script="patient.py", site={"partition": "down"}))
    jobs = run.jobs()
    run.folder.job_file.unlink()  # as if the client had died between sbatch and its own books
    bed.cli("submit", str(bed.here / "bundle-orphan"))
    assert run.jobs() == jobs


def test_watching_survives_the_death_of_the_watcher_and_of_the_controller(bed: Bed) -> None:
    """Stories 9 and 10."""
    run = bed.submit(bed.script("watched", script="collective.py", args=("go", "150"), nodes=2))
    first = bed.start_cli("logs", "-f", run.folder.run_id)
    run.wait_until_it_says("step 1 ")
    first.kill()
    first.wait()
    second = bed.start_cli("logs", "-f", run.folder.run_id)
    bed.restart_controller()
    text, _ = second.communicate(timeout=240)
    assert second.returncode == 0, text
    assert "step 149 sum 2" in text
    assert "step 0 sum 2" in text
    assert run.wait_for("SUCCEEDED").attempt == 1


@pytest.mark.versions
def test_a_refused_chain_leaves_nothing_queued(bed: Bed) -> None:
    spec = bed.script("refused", script="patient.py", site={"cpu_partition": "nowhere"})
    bundle = bed.here / "bundle"
    bed.cli("render", str(spec), "--dir", str(bundle))
    text = bed.cli("submit", str(bundle), code=2)
    assert "partition" in text
    wait(lambda: not bed.queue(), "an empty queue", seconds=60)  # what had begun is told to end
    assert "not submitted" in bed.cli("status", "refused")


def test_asking_too_much_waits_with_the_reason(bed: Bed) -> None:
    """Story 6; every reason that could be provoked is in test_reasons."""
    overrides = {"train": {"time": 5}}
    run = bed.submit(bed.script("much", script="patient.py", site={"partition": "short"},
                                target={"name": "slurm", "overrides": overrides}))  # fmt: skip
    wait(lambda: "time-limit" in str(run.status().reason), "the reason", seconds=60)
    state = run.status()
    assert state.phase == "PENDING"
    assert state.reason is not None
    assert state.reason.id == "slurm-part-time-limit"


HOSTILE = [
    "", " ", "a b", "'", '"', "$HOME", "`id`", "$(id)", "\\", "\\n", "a\nb", "\n", "a\r\nb", "\t", "ä€𝄞", "-x",
    "--nodes=9",
    "*", "~", "#SBATCH --nodes=9", "\n#SBATCH --hold\n", "!!", "a;b", "a&b", "{a,b}", "%j %x", "\x01\x7f", "\u2028",
    "'\"'\"'", "$'x'", "EOF", "</x>", "null", "1e3", "é\u0301", "\u202etxt",
]  # fmt: skip


@pytest.mark.versions
def test_hostile_arguments_and_variables_arrive_byte_for_byte(bed: Bed) -> None:
    draw = random.Random(11)
    alphabet = "".join(HOSTILE) + "abc"
    made = ["".join(draw.choices(alphabet, k=draw.randint(1, 40))) for _ in range(40)]
    arguments = (*HOSTILE, *made)
    variables = {f"HOSTILE_{n}": text for n, text in enumerate([*HOSTILE, *made])}
    run = bed.submit(bed.script("hostile", script="tell.py", args=arguments, env=variables))
    run.wait_for("SUCCEEDED")
    told = json.loads((run.folder.root / "told.json").read_text("utf-8"))
    assert told["arguments"] == list(arguments)
    assert told["environment"] == variables


@pytest.mark.usefixtures("bed")
def test_one_query_answers_for_many_runs(bed: Bed, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bed.submit(bed.script("many", script="patient.py", site={"partition": "down"}))
    record = json.loads(run.folder.job_file.read_text())
    for number in range(99):
        copy = bed.here / "runs" / f"many-{number:08x}"
        copy.mkdir()
        (copy / "job.json").write_text(json.dumps(record))
    asked: list[list[str]] = []
    local = Local()

    class Counting:
        name = "this machine"

        def run(self, argv: list[str], **options: Any) -> Any:
            asked.append(list(argv))
            return local.run(argv, **options)

    target = Slurm(Watch(Client(Counting())))
    refs = [run.ref, *(target.ref(type(run.folder)(p)) for p in (bed.here / "runs").glob("many-000000*"))]
    began = time.monotonic()
    states = target.statuses(refs)
    spent = time.monotonic() - began
    queries = [argv[0] for argv in asked if argv != ["sbatch", "--version"]]
    assert queries == ["squeue"]
    assert {state.phase for state in states} == {"PENDING"}
    assert spent < 30
