"""A save that dies at any write, sync, rename or deletion leaves the newest good checkpoint loadable."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from trainwright.checkpoints import disk
from trainwright.checkpoints.format import folder_name, is_temporary
from trainwright.checkpoints.store import LOCK

from .conftest import load_newest, make_state, open_manager, save_steps
from .crashes import kill_at_every_call, kill_while_replacing
from .faults import Mode, flip_bit


@pytest.mark.parametrize("mode", ["process", "torn", "power"])
def test_a_save_killed_at_every_call_leaves_the_newest_good_checkpoint(
    template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Mode
) -> None:
    monkeypatch.setattr(disk, "_CHUNK", 16384)  # several writes for each file
    deaths = kill_at_every_call(template, tmp_path, mode)
    assert deaths > 20, "the deletion of step 1 and several writes should be among the calls"


def test_a_save_killed_while_it_replaces_a_damaged_one_leaves_a_good_one(template: Path, tmp_path: Path) -> None:
    from .crashes import check_after, save_in_child
    from .faults import DIED, CrashingDisk

    for at in range(1, 200):
        folder = tmp_path / str(at)
        import shutil

        shutil.copytree(template, folder)
        save_steps(folder, 3)
        flip_bit(folder / folder_name(3) / "__0_0.distcp", 20000)
        code = save_in_child(folder, CrashingDisk(at, "power"), 3, keep=5)
        if code == DIED:
            assert load_newest(folder)[0].step in (2, 3)
        else:
            assert code == 0
            check_after(folder, at_least=3, at=at)
            return
    raise AssertionError("never finished")


@pytest.mark.parametrize("mode", ["process", "torn", "power"])
def test_a_save_killed_while_it_replaces_the_only_good_one_leaves_one_of_them(tmp_path: Path, mode: Mode) -> None:
    assert kill_while_replacing(tmp_path, mode) > 10, "writes, both renames and the deletion are among the calls"


def test_what_was_set_aside_is_litter_once_its_successor_has_the_name(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    aside = tmp_path / f"{folder_name(1)}.old-0123456789ab"
    shutil.copytree(tmp_path / folder_name(1), aside)
    open_manager(tmp_path).finish()
    assert not aside.exists()
    assert load_newest(tmp_path)[0].step == 1


def test_a_half_deleted_one_is_not_put_back(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2)
    aside = tmp_path / f"{folder_name(2)}.old-0123456789ab"
    (tmp_path / folder_name(2)).rename(aside)
    (aside / "__0_0.distcp").unlink()
    assert load_newest(tmp_path)[0].step == 1
    assert not aside.exists()


def test_leftovers_of_a_dead_writer_are_cleared_by_the_next(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    litter = tmp_path / "step-00000009.tmp-0123456789ab"
    litter.mkdir()
    (litter / "__0_0.distcp").write_bytes(b"half")
    open_manager(tmp_path).finish()
    assert not litter.exists()


def test_folders_of_a_live_writer_are_left_alone(tmp_path: Path) -> None:
    save_steps(tmp_path, 1, 2, 3)
    litter = tmp_path / "step-00000009.tmp-0123456789ab"
    litter.mkdir()
    other = os.open(tmp_path / LOCK, os.O_RDWR)  # as a second process would hold it
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        save_steps(tmp_path, 4, keep=1)
        assert litter.exists(), "it may be the other writer's save in progress"
        assert load_newest(tmp_path)[0].step == 4, "saving is allowed"
        assert (tmp_path / folder_name(1)).exists(), "deleting is the lock holder's"
    finally:
        os.close(other)
    save_steps(tmp_path, 5, keep=1)
    assert not litter.exists()
    assert not (tmp_path / folder_name(1)).exists()


def test_things_that_are_not_ours_are_never_deleted(tmp_path: Path) -> None:
    mine = [tmp_path / name for name in ("step-00000001-backup", "step-00000001.tmp-mine", "best", "step-1")]
    for path in mine:
        path.mkdir()
    save_steps(tmp_path, 1, 2, 3, keep=1)
    assert all(path.exists() for path in mine)
    assert not any(is_temporary(path.name) for path in tmp_path.iterdir())


def test_saving_a_step_that_is_there_and_whole_keeps_it(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    before = (tmp_path / folder_name(1)).stat().st_ino
    save_steps(tmp_path, 1)
    assert (tmp_path / folder_name(1)).stat().st_ino == before


def test_saving_a_step_that_stands_at_other_samples_replaces_it(tmp_path: Path) -> None:
    save_steps(tmp_path, 1)
    with open_manager(tmp_path) as manager:
        manager.save(1, 7, 7, make_state(7))
    checkpoint, state = load_newest(tmp_path)
    assert checkpoint.manifest.samples == 7
    assert state["trainer"] == {"samples": 7}
