"""How far a run is, from files that may be cut off or hold rubbish."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.runs.folder import RunFolder
from trainwright.runs.steps import Step, last_step, saved_step


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_the_last_step_is_found_behind_evaluations_torn_lines_and_rubbish(run: RunFolder) -> None:
    assert last_step(run) is None
    run.metrics.write_bytes(
        b'{"kind":"step","step":1,"loss":3.0}\n{"kind":"step","step":2,"loss":2.5,"tokens_per_s":900}\n'
        b'{"kind":"eval","step":2}\n[1]\nnull\n{"kind":"step","step":"x"}\n\xff\xfe\n{"kind":"step","st'
    )
    assert last_step(run) == Step(2, 2.5, 900.0)


def test_only_the_end_of_long_metrics_is_read(run: RunFolder) -> None:
    run.metrics.write_text(
        '{"kind":"step","step":1,"loss":null}\n' * 100_000 + '{"kind":"step","step":2,"loss":true}\n'
    )
    assert last_step(run) == Step(2, None, None)


def test_a_checkpoint_counts_when_its_manifest_is_there(run: RunFolder) -> None:
    assert saved_step(run) is None
    for name, committed in (
        ("step-00000010", True), ("step-00000020", True), ("step-00000030", False), ("step-00000040.tmp-1", True),
        ("other", True),
    ):  # fmt: skip
        (run.checkpoints / name).mkdir(parents=True)
        if committed:
            (run.checkpoints / name / "manifest.json").touch()
    assert saved_step(run) == 20


def test_without_metrics_the_newest_log_of_rank_0_tells_the_step(run: RunFolder) -> None:
    run.metrics.unlink(missing_ok=True)
    line = "step {}/400  loss {}  lr 0.001  grad 1.25  1,234 tokens/s  MFU 3.0%  0.10 GiB  2m left\n"
    for attempt, step in ((2, 7), (10, 12)):
        path = run.rank_log(attempt, 0)
        path.parent.mkdir(parents=True)
        path.write_text(line.format(step, "2.5000") + f"step {step}/400  eval loss 9.0000\n")
    assert last_step(run) == Step(12, 2.5, 1234.0)
    run.rank_log(10, 0).write_text("nothing yet\n")
    assert last_step(run) == Step(7, 2.5, 1234.0)
