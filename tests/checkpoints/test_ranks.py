"""Several ranks: saved on N and loaded on M under other layouts, and failing together when one fails."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from trainwright.checkpoints.format import folder_name, open_checkpoint, step_folders

from . import cases
from .faults import flip_bit
from .workers import Pool, RankDied


class Saved(NamedTuple):
    """A checkpoint and what it must give back."""

    folder: Path
    full: cases.Full
    losses: list[float]


LAYOUTS: dict[str, tuple[cases.Kind, int]] = {
    "1 rank": ("single", 1),
    "DDP on 2": ("ddp", 2),
    "FSDP2 on 2": ("fsdp", 2),
    "FSDP2 on 4": ("fsdp", 4),
    "HSDP on 2x2": ("hsdp", 4),
}


@pytest.fixture(scope="module", params=LAYOUTS.values(), ids=LAYOUTS.keys())
def saved(request: pytest.FixtureRequest, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """One checkpoint for each layout."""
    kind, world = request.param
    folder = tmp_path_factory.mktemp("saved") / "checkpoints"
    results = pool.values(world, cases.save, kind, folder)
    full, losses = results[0]
    assert all(result[0] == full for result in results)
    return Saved(folder, full, losses)


@pytest.mark.parametrize(("kind", "world"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_what_n_ranks_saved_m_ranks_load(pool: Pool, saved: Saved, kind: cases.Kind, world: int) -> None:
    for full, trainer, losses in pool.values(world, cases.load, kind, saved.folder):
        moments = full["optimizer"]["state"]
        assert moments, "an empty optimizer state proves nothing"
        assert all(any(_flat(moment["exp_avg_sq"])) and moment["step"] == 3 for moment in moments.values())
        assert full == saved.full
        assert trainer == {"samples": 6}
        assert losses == pytest.approx(saved.losses, rel=1e-5)


@pytest.mark.parametrize(("kind", "world"), LAYOUTS.values(), ids=LAYOUTS.keys())
def test_losses_after_loading_equal_those_without_interruption_bit_for_bit(
    pool: Pool, tmp_path: Path, kind: cases.Kind, world: int
) -> None:
    uninterrupted = [losses for _, losses in pool.values(world, cases.save, kind, tmp_path, asynchronous=False)]
    resumed = [losses for _, _, losses in pool.values(world, cases.load, kind, tmp_path)]
    assert resumed == uninterrupted


def test_every_rank_writes_its_share(pool: Pool, tmp_path: Path) -> None:
    pool.values(4, cases.save_good, tmp_path, 1)
    names = {record.path for record in open_checkpoint(tmp_path / folder_name(1)).manifest.files}
    assert names == {".metadata", "trainer.json", *(f"__{rank}_0.distcp" for rank in range(4))}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("operation", ["create", "write", "sync"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_disk_that_fails_on_one_rank_fails_the_save_on_all(
    pool: Pool, tmp_path: Path, rank: int, operation: str, asynchronous: bool
) -> None:
    pool.values(2, cases.save_good, tmp_path, 1)
    errors = pool.values(2, cases.save_with_a_broken_rank, tmp_path, rank, operation, asynchronous=asynchronous)
    assert errors[0] == errors[1]
    assert f"CheckpointFailed: saving step 2 to {tmp_path} failed: rank {rank}: Input/output error [EIO]" in errors[0]
    assert [path.name for path in step_folders(tmp_path)] == [folder_name(1)]
    assert pool.values(2, cases.newest_step, tmp_path) == [1, 1]


def test_a_rank_that_cannot_copy_its_state_fails_the_save_on_all(pool: Pool, tmp_path: Path) -> None:
    errors = pool.values(2, cases.save_with_a_rank_that_cannot_copy, tmp_path, 1)
    assert errors[0] == errors[1]
    assert "failed: rank 1: TypeError: Object of type object is not JSON serializable" in errors[0]


def test_ranks_do_not_wait_for_ever_for_a_silent_one(pool: Pool, tmp_path: Path) -> None:
    one, silent = pool.values(2, cases.save_with_a_silent_rank, tmp_path / "c", 1, tmp_path / "released")
    assert silent == "silent"
    assert "another rank died or did not answer within 0:00:02" in one
    assert step_folders(tmp_path / "c") == []


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_notice_one_that_dies(tmp_path: Path, rank: int) -> None:
    with Pool(2) as mortals:
        results = mortals.run(2, cases.save_with_a_dying_rank, tmp_path, rank)
    assert isinstance(results[rank], RankDied)
    assert "another rank died or did not answer" in results[1 - rank]
    assert step_folders(tmp_path) == []


def test_all_ranks_pass_over_a_damaged_file_of_one_rank(pool: Pool, tmp_path: Path) -> None:
    for step in (1, 2):
        pool.values(4, cases.save_good, tmp_path, step)
    flip_bit(tmp_path / folder_name(2) / "__3_0.distcp", 3000)
    assert pool.values(4, cases.newest_step, tmp_path) == [1, 1, 1, 1]
    assert pool.values(2, cases.newest_step, tmp_path) == [1, 1]


def test_background_saves_and_training_use_different_groups(pool: Pool, tmp_path: Path) -> None:
    expected = [4.0 * step for step in range(1, 6) for _ in range(20)]
    assert pool.values(4, cases.training_meanwhile, tmp_path) == [expected] * 4
    assert [path.name for path in step_folders(tmp_path)] == [folder_name(5), folder_name(4)]


def test_ranks_may_hold_different_tensors(pool: Pool, tmp_path: Path) -> None:
    assert pool.values(2, cases.save_and_load_parts, tmp_path, -1) == [[5.0, 5.0, 5.0, 1.0], [6.0, 6.0, 6.0, 1.0]]


def test_a_saved_tensor_that_no_rank_takes_is_an_error_on_every_rank(pool: Pool, tmp_path: Path) -> None:
    for text in pool.values(2, cases.save_and_load_parts, tmp_path, 1):
        assert "model.stage.1 is in it but not in the model" in text


def _flat(value: object) -> list[object]:
    return [inner for item in value for inner in _flat(item)] if isinstance(value, list) else [value]
