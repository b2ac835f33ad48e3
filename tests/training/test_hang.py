"""A hung collective: who is named, where it was, what the others wait in, and what is read from torch's recorder."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from training.tiny import lines, make_run, train
from trainwright.runs.events import read_events
from trainwright.runs.exit_codes import TrainExit
from trainwright.runs.failures import first_failure
from trainwright.runs.folder import RunFolder
from trainwright.training import flight, hang
from trainwright.training.hang import HangWatch, Seen, absent, tell
from trainwright.training.whereabouts import Place, Whereabouts, read, record_file


def seen(rank: int, count: int, state: str = "runs", at: str = "") -> Seen:
    return Seen(rank, count, f"step {count}, compute", state, at)


@pytest.mark.parametrize(
    ("ranks", "missing"),
    [
        ([seen(0, 5, "ended"), seen(1, 4, "runs"), seen(2, 5, "ended")], (1,)),
        ([seen(0, 5, "ended"), seen(1, 5, "runs"), seen(2, 5, "ended")], (1,)),
        ([seen(0, 5, "ended"), seen(1, 5, "stopped"), seen(2, 4, "ended")], (1,)),
        ([seen(0, 5, "ended"), seen(1, 5, "ended")], (2,)),
        ([seen(0, 5), seen(1, 5), seen(2, 5)], ()),
        ([seen(0, 5), seen(1, 3), seen(2, 3)], (1, 2)),
    ],
    ids=["fewer marks", "as many, but it never timed out", "stopped beats behind", "no word", "all alike", "two"],
)
def test_who_did_not_arrive(ranks: list[Seen], missing: tuple[int, ...]) -> None:
    assert absent(ranks, range(len(ranks) + (missing == (2,)))) == missing


def test_the_sentence_names_the_rank_and_where_the_others_wait() -> None:
    ranks = [seen(0, 5, "ended", "step.py:9"), seen(1, 4, "stopped"), seen(2, 5, "ended", "step.py:9")]
    (told,) = tell(ranks, range(3), 30.0)
    assert told.rank == 1
    assert told.sentence == (
        "a collective hung: rank 1 did not arrive; it was last seen in step 4, compute; it is stopped by a signal; "
        "ranks 0, 2 waited in step 5, compute (step.py:9) for 30 s"
    )


def test_a_node_that_tells_nothing_is_named_by_its_ranks() -> None:
    told = tell([seen(0, 5, "ended"), seen(1, 5, "ended")], range(4), 30.0)
    assert [one.rank for one in told] == [2, 3]
    assert "rank 3 did not arrive, and its node tells nothing of it; ranks 0, 1 waited" in told[1].sentence


def test_when_all_wait_nobody_is_accused() -> None:
    (told,) = tell([seen(0, 5), seen(1, 5)], range(2), 30.0)
    assert "all ranks are in one; they differ, or the network fails" in told.sentence


def test_what_a_rank_wrote_last_can_be_read_by_others(tmp_path: Path) -> None:
    mine = Whereabouts(record_file(tmp_path, 3))
    assert read(record_file(tmp_path, 3)) == Place(1, 0, "start")
    mine.step = 7
    mine.at("compute")
    mine.passes()
    mine.passes()
    found = read(record_file(tmp_path, 3))
    assert found == Place(4, 7, "compute", 2)
    assert str(found) == "step 7, compute, micro-batch 2"
    assert read(record_file(tmp_path, 4)) is None


def entry(number: int, state: str, group: str = "0", **fields: Any) -> dict[str, Any]:
    """One of a dump, as torch 2.15 writes it (version 2.10 of the form)."""
    described = "default_pg" if group == "0" else "mesh_tp"
    values = {
        "record_id": number, "pg_id": 0, "process_group": (group, described), "collective_seq_id": number,
        "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce", "time_created_ns": 1000 + number,
        "duration_ms": None, "input_sizes": [[3]], "input_dtypes": ["Float"], "output_sizes": [[3]],
        "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None, "retired": state == "completed", "timeout_ms": 600000, "is_p2p": False,
        "frames": [{"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/c10d.py", "line": 4181},
                   {"name": "gradients", "filename": "/y/train.py", "line": 12}],
    }  # fmt: skip
    return {**values, **fields}


def dump(folder: Path, rank: int, entries: list[dict[str, Any]]) -> None:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"},
              "5": {"name": "5", "desc": "mesh_tp", "ranks": "[0, 1]"}}  # fmt: skip
    values = {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries, "nccl_comm_state": {}}
    (folder / f"flight-{rank}").write_bytes(pickle.dumps(values))


def test_the_recorder_tells_who_waits_in_what_and_who_never_called_it(tmp_path: Path) -> None:
    done = [entry(1, "completed"), entry(2, "completed")]
    dump(tmp_path, 0, [*done, entry(3, "started"), entry(1, "scheduled", "5", time_created_ns=7000)])
    dump(tmp_path, 1, done)
    (tmp_path / "flight-9x").write_bytes(b"no dump")
    found = flight.stuck(flight.read_dumps(tmp_path / "flight-"))
    assert found is not None
    assert (found.operation, found.sequence, found.at) == ("all_reduce", 3, "/y/train.py:12")
    assert (found.waiting, found.missing, found.unheard) == ((0,), (1,), (2,))
    assert str(found) == "all_reduce number 3"
    (told,) = tell([seen(0, 5), seen(1, 5), seen(2, 5)], range(3), 600.0, found)
    assert told.sentence.startswith("all_reduce number 3 hung: rank 1 did not arrive")


def test_a_hang_of_a_smaller_group_is_told_of_that_group(tmp_path: Path) -> None:
    dump(tmp_path, 0, [entry(1, "completed"), entry(1, "started", "5", time_created_ns=5000)])
    dump(tmp_path, 1, [entry(1, "completed")])
    dump(tmp_path, 2, [entry(1, "completed"), entry(2, "scheduled", time_created_ns=6000)])
    found = flight.stuck(flight.read_dumps(tmp_path / "flight-"))
    assert found is not None
    assert (str(found), found.waiting, found.missing) == ("all_reduce number 1 of group mesh_tp", (0,), (1,))


def test_dumps_in_which_all_is_complete_accuse_nobody(tmp_path: Path) -> None:
    dump(tmp_path, 0, [entry(1, "completed")])
    assert flight.stuck(flight.read_dumps(tmp_path / "flight-")) is None


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/evil",)


@pytest.mark.parametrize("content", [pickle.dumps({"entries": [Evil()]}), b"", b"\x80\x05garbage", pickle.dumps([1])])
def test_a_file_that_is_no_dump_is_not_believed_and_never_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "flight-0").write_bytes(content)
    assert flight.read_dumps(tmp_path / "flight-") == {}


RANK = """
import sys, time
from trainwright.training.worker import answer_with_stack
from trainwright.training.whereabouts import Whereabouts
answer_with_stack(int(sys.argv[1]))
place = Whereabouts.of_rank(int(sys.argv[1]))
place.step = 3
place.at("compute")
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Callable[[HangWatch, int], list[subprocess.Popen[bytes]]]]:
    """Processes that are where ranks are in the middle of a step, without a trainer."""
    started: list[subprocess.Popen[bytes]] = []
    script = tmp_path / "rank.py"
    script.write_text(RANK)

    def start(watch: HangWatch, count: int) -> list[subprocess.Popen[bytes]]:
        environment = {**os.environ, **watch.variables()}
        for rank in range(count):
            command = [sys.executable, str(script), str(rank)]
            started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        return started

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_the_launcher_finds_the_stopped_rank_once_another_has_timed_out(
    tmp_path: Path, ranks: Callable[[HangWatch, int], list[subprocess.Popen[bytes]]]
) -> None:
    run = RunFolder(tmp_path / "run-00000001")
    watch = HangWatch(run, 1, 30.0)
    first, second = ranks(watch, 2)
    pids = {0: first.pid, 1: second.pid}
    assert not watch.look({0: None, 1: None}, pids, 2)
    second.send_signal(signal.SIGSTOP)
    first.kill()
    first.wait()
    said = {"class": "network", "code": 77, "exception": "Timed out waiting 30000ms", "line": "step.py:9"}
    run.event_log(1, 0).write("failed", **said)
    assert not watch.look({0: -15, 1: None}, pids, 2), "a rank that ended otherwise is no hang"
    assert watch.look({0: 77, 1: None}, pids, 2)
    (told,) = watch.told
    assert told.rank == 1
    assert told.sentence == (
        "a collective hung: rank 1 did not arrive; it was last seen in step 3, compute; it is stopped by a signal; "
        "rank 0 waited in step 3, compute (step.py:9) for 30 s"
    )
    watch.close()


def test_ranks_that_all_fall_silent_are_asked_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    ranks: Callable[[HangWatch, int], list[subprocess.Popen[bytes]]],
) -> None:  # fmt: skip
    monkeypatch.setattr(hang, "_MARGIN_SECONDS", 0.0)
    monkeypatch.setattr(hang, "_SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(hang, "_LOOK_SECONDS", 0.0)
    watch = HangWatch(RunFolder(tmp_path / "run-00000001"), 1, 0.0)
    pids = {rank: process.pid for rank, process in enumerate(ranks(watch, 2))}
    codes = dict.fromkeys(pids)
    assert not watch.look(codes, pids, 2), "they have just moved"
    assert not watch.look(codes, pids, 1), "one rank waits for nobody"
    assert watch.look(codes, pids, 2)
    (told,) = watch.told
    assert "all ranks are in one" in told.sentence
    assert told.at in (f"{tmp_path}/rank.py:9", f"{tmp_path}/rank.py:10"), "where it says that it is ready, or sleeps"
    watch.close()


def test_a_stopped_rank_ends_the_run_in_a_bounded_time_and_the_run_goes_on_as_if_nothing_had_been(
    tmp_path: Path, tiny_model: Path, tiny_text: Path
) -> None:
    fields = {"layout": {"dp_replicate": 2}, "duration": "60 steps", "checkpoint": {"every": "5 steps"},
              "compute": {"collective_timeout": "15s"}}  # fmt: skip
    run = make_run(tmp_path / "hung" / "tiny-00000001", tiny_model, tiny_text, **fields)
    launcher = train(run, wait=False)
    deadline = time.monotonic() + 120
    while not (run.metrics.exists() and len(lines(run, "step")) >= 7):
        assert time.monotonic() < deadline, run.rank_log(1, 0).read_text()
        time.sleep(0.05)
    os.kill(rank_of(run, 1), signal.SIGSTOP)
    assert launcher.wait(60) == TrainExit.HUNG_COLLECTIVE
    failure = first_failure(run, 1, "train", read_events(run.events))
    assert failure is not None
    assert failure.rank == 1
    assert "a collective hung: rank 1 did not arrive; it was last seen in step " in failure.text
    assert "it is stopped by a signal; rank 0 waited in step " in failure.text
    assert launcher.stdout is not None
    assert "rank 1: a collective hung" in launcher.stdout.read().splitlines()[-1]

    assert train(run, 2).returncode == TrainExit.FINISHED
    whole = make_run(tmp_path / "whole" / "tiny-00000001", tiny_model, tiny_text, **fields)
    assert train(whole).returncode == TrainExit.FINISHED
    wanted = {line["step"]: line["loss"] for line in lines(whole, "step")}
    got = {line["step"]: line["loss"] for line in lines(run, "step")}  # steps done again: the later line
    assert got == wanted, "bit for bit"


def rank_of(run: RunFolder, rank: int) -> int:
    """Process id of a live rank of this run on this machine."""
    for folder in Path("/proc").iterdir():
        try:
            variables = (folder / "environ").read_text().split("\0") if folder.name.isdigit() else []
        except OSError:
            continue
        if f"RANK={rank}" in variables and f"TRAINWRIGHT_RUN_DIR={run.root}" in variables:
            return int(folder.name)
    raise AssertionError(f"rank {rank} of {run.run_id} is not there")
