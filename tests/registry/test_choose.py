"""The best whole checkpoint becomes the model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from trainwright.checkpoints.disk import Disk, write_file
from trainwright.checkpoints.format import Manifest
from trainwright.errors import AnswerNo, InputError
from trainwright.evaluation.held_out import HeldOut
from trainwright.evaluation.results import Point
from trainwright.registry.choose import choose


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        place = folder / f"step-{step:08d}"
        place.mkdir(parents=True)
        record = write_file(Disk(), place / "data.distcp", b"weights" * step)
        manifest = Manifest(step, 4 * step, 1024 * step, 0, None, "dcp", {}, "0" * 64, (record,))
        (place / "manifest.json").write_bytes(manifest.encode())


def points(**losses: float) -> dict[int, Point]:
    return {int(step[1:]): Point(int(step[1:]), HeldOut(loss, 1.0, None, 9)) for step, loss in losses.items()}


def test_the_lowest_held_out_loss_wins_not_the_newest(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30)
    chosen = choose(tmp_path, points(s0=3.0, s10=2.0, s20=1.5, s30=1.7))
    assert chosen.checkpoint.step == 20
    assert chosen.why == "held-out loss 1.5000, the lowest of 3 checkpoints"


def test_equal_losses_take_the_newer(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    assert choose(tmp_path, points(s10=1.5, s20=1.5)).checkpoint.step == 20


def test_a_lower_loss_without_a_checkpoint_does_not_count(tmp_path: Path) -> None:
    save(tmp_path, 20, 30)
    assert choose(tmp_path, points(s10=1.0, s20=1.9, s30=1.8)).checkpoint.step == 30


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_never_wins(tmp_path: Path, loss: float) -> None:
    save(tmp_path, 10, 20)
    assert choose(tmp_path, points(s10=2.0, s20=loss)).checkpoint.step == 10


def test_without_measurements_it_is_the_newest(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    chosen = choose(tmp_path, {})
    assert (chosen.checkpoint.step, chosen.why[:10]) == (20, "the newest")


def test_a_damaged_best_is_passed_over_and_named(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    file = tmp_path / "step-00000010" / "data.distcp"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    chosen = choose(tmp_path, points(s10=1.0, s20=2.0))
    assert chosen.checkpoint.step == 20
    assert "step-00000010: data.distcp was changed" in chosen.damaged[0]


def test_nothing_whole_is_an_answer_with_the_reasons(tmp_path: Path) -> None:
    with pytest.raises(AnswerNo, match="has no whole checkpoint; train first"):
        choose(tmp_path, {})
    save(tmp_path, 10)
    (tmp_path / "step-00000010" / "data.distcp").unlink()
    with pytest.raises(AnswerNo, match=r"no whole checkpoint \(step-00000010: data.distcp is missing\)"):
        choose(tmp_path, {})


def test_a_step_that_was_asked_for_is_taken_or_refused(tmp_path: Path) -> None:
    save(tmp_path, 10, 20)
    assert choose(tmp_path, points(s10=9.0, s20=1.0), step=10).checkpoint.step == 10
    with pytest.raises(InputError, match="holds no checkpoint of step 15; the steps are 10, 20"):
        choose(tmp_path, {}, step=15)
    (tmp_path / "step-00000020" / "data.distcp").unlink()
    with pytest.raises(AnswerNo, match=r"is damaged: data\.distcp is missing"):
        choose(tmp_path, {}, step=20)
