"""Planted bugs that the tests of this room must catch: each makes one property fail, which holds without it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.checkpoints import dcp, manager, store
from trainwright.checkpoints.disk import HashingStream, write_file
from trainwright.checkpoints.format import MANIFEST, Checkpoint, Manifest, folder_name

from .conftest import assert_same_state, load_newest, make_state, open_manager, save_steps
from .crashes import kill_at_every_call, kill_while_replacing, save_in_child
from .faults import CrashingDisk, LyingDisk, flip_bit

Patch = pytest.MonkeyPatch
Property = Callable[[Path], None]


def no_death_leaves_a_broken_checkpoint(scratch: Path) -> None:
    """The crash property with power cuts, the hardest of the three modes."""
    template = scratch / "template"
    save_steps(template, 1, 2)
    kill_at_every_call(template, scratch, "power")


def a_save_that_returned_survives_a_power_cut(scratch: Path) -> None:
    """What ``save`` promises."""
    save_steps(scratch, 1, 2)
    assert save_in_child(scratch, CrashingDisk(0, "power"), 3, keep=9) == 0
    assert load_newest(scratch)[0].step == 3


def a_bad_disk_costs_no_good_checkpoint(scratch: Path) -> None:
    """What retention promises."""
    disk = LyingDisk()
    with open_manager(scratch, keep=1, asynchronous=False, disk=disk) as saver:
        saver.save(1, 1, 1, make_state(1))
        disk.lies = True
        saver.save(2, 2, 2, make_state(2))
    assert load_newest(scratch)[0].step == 1


def a_flipped_bit_is_never_loaded(scratch: Path) -> None:
    """What ``newest`` promises."""
    save_steps(scratch, 1, 2)
    flip_bit(scratch / folder_name(2) / "__0_0.distcp", 30000)
    checkpoint, state = load_newest(scratch)
    assert_same_state(state, make_state(checkpoint.step))
    assert checkpoint.step == 1


def a_background_save_is_of_the_moment_of_the_call(scratch: Path) -> None:
    """What asynchronous saves promise, over many tries because a background thread may happen to be quick."""
    for step in range(1, 30):
        state = make_state(step)
        with open_manager(scratch, keep=1) as saver:
            saver.save(step, step, step, state)
            state["model"]["w"].fill_(-1)
        assert_same_state(load_newest(scratch)[1], make_state(step))


def the_only_checkpoint_survives_its_replacement(scratch: Path) -> None:
    """What ``commit`` promises where a checkpoint of the step is there already."""
    kill_while_replacing(scratch, "process")


def the_best_checkpoint_stays(scratch: Path) -> None:
    """What ``save(best=…)`` promises."""
    with open_manager(scratch, keep=1) as saver:
        for step in (10, 20, 30):
            saver.save(step, step, step, make_state(step), best=10)
    assert (scratch / folder_name(10)).is_dir()


def publish_before_the_manifest(patch: Patch) -> None:
    """``latest`` before commit: the folder gets its final name, then its manifest."""

    def commit(self: store.LocalStore, temporary: str, manifest: Manifest) -> Path:
        target = self.folder / folder_name(manifest.step)
        self._disk.rename(self.folder / temporary, target)
        self._disk.sync_folder(self.folder)
        write_file(self._disk, target / MANIFEST, manifest.encode())
        self._disk.sync_folder(target)
        return target

    patch.setattr(store.LocalStore, "commit", commit)


def skip_syncing_files(patch: Patch) -> None:
    """Rename without having synced the data."""

    def close(self: HashingStream) -> None:
        if not self.closed:
            if self._used:
                self._hand_over()
            self.abandon()

    patch.setattr(HashingStream, "close", close)


def skip_syncing_the_parent(patch: Patch) -> None:
    """Say "saved" before the new name is on the disk."""
    original = store.LocalStore.commit

    def commit(self: store.LocalStore, temporary: str, manifest: Manifest) -> Path:
        sync, parent = self._disk.sync_folder, self.folder
        self._disk.sync_folder = lambda folder: None if folder == parent else sync(folder)  # type: ignore[method-assign]
        try:
            return original(self, temporary, manifest)
        finally:
            self._disk.sync_folder = sync  # type: ignore[method-assign]

    patch.setattr(store.LocalStore, "commit", commit)


def delete_in_place(patch: Patch) -> None:
    """Delete a checkpoint's files while it still carries its name."""
    patch.setattr(
        store.LocalStore, "delete", lambda self, step: self._disk.remove_tree(self.folder / folder_name(step))
    )


def delete_before_verifying(patch: Patch) -> None:
    """Believe that what was written is what is there."""

    def retain(self: manager.CheckpointManager, checkpoint: Checkpoint, best: int | None) -> None:
        self._delete(self._surplus(checkpoint.step, best))

    patch.setattr(manager.CheckpointManager, "_retain", retain)


def trust_the_newest_name(patch: Patch) -> None:
    """Take the newest folder without reading its files."""
    patch.setattr(manager, "verify_files", lambda *_, **__: [])


def save_without_a_copy(patch: Patch) -> None:
    """Write the live tensors from the background thread."""
    patch.setattr(dcp.PrivateCopy, "take", lambda self, state: (state, {}))


def delete_before_replacing(patch: Patch) -> None:
    """Take the old checkpoint off the disk before the new one has its name."""

    def replace(self: store.LocalStore, target: Path, source: Path) -> None:
        self._take_out(target)
        self._disk.rename(source, target)

    patch.setattr(store.LocalStore, "_replace", replace)


def forget_what_was_set_aside(patch: Patch) -> None:
    """Clear everything that has no final name."""
    patch.setattr(store.LocalStore, "_put_back", lambda self, path: False)


def forget_the_best(patch: Patch) -> None:
    """Keep by count alone."""
    original = manager.surplus
    patch.setattr(manager, "surplus", lambda *args, best, **options: original(*args, **options))


MUTANTS: list[tuple[Callable[[Patch], None], Property]] = [
    (publish_before_the_manifest, no_death_leaves_a_broken_checkpoint),
    (skip_syncing_files, no_death_leaves_a_broken_checkpoint),
    (skip_syncing_the_parent, a_save_that_returned_survives_a_power_cut),
    (delete_in_place, no_death_leaves_a_broken_checkpoint),
    (delete_before_verifying, a_bad_disk_costs_no_good_checkpoint),
    (trust_the_newest_name, a_flipped_bit_is_never_loaded),
    (delete_before_replacing, the_only_checkpoint_survives_its_replacement),
    (forget_what_was_set_aside, the_only_checkpoint_survives_its_replacement),
    (forget_the_best, the_best_checkpoint_stays),
    (save_without_a_copy, a_background_save_is_of_the_moment_of_the_call),
]


@pytest.mark.parametrize("holds", dict.fromkeys(holds for _, holds in MUTANTS), ids=lambda holds: holds.__name__)
def test_the_property_holds_without_a_mutant(tmp_path: Path, holds: Property) -> None:
    holds(tmp_path)


@pytest.mark.parametrize(("mutant", "holds"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS])
def test_the_mutant_is_caught(
    tmp_path: Path, monkeypatch: Patch, mutant: Callable[[Patch], Any], holds: Property
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        holds(tmp_path)
    monkeypatch.undo()
    shutil.rmtree(tmp_path)
