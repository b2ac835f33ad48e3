"""Kills saves at every call that changes a disk and checks what is left; for the crash tests and their mutants."""

from __future__ import annotations

import os
import shutil
import traceback
from pathlib import Path
from typing import Any

from trainwright.checkpoints.disk import Disk
from trainwright.checkpoints.format import ManifestError, is_temporary, open_checkpoint, step_folders
from trainwright.checkpoints.verify import verify

from .conftest import assert_same_state, load_newest, make_state, open_manager
from .faults import DIED, CrashingDisk, Mode


def save_in_child(folder: Path, disk: Disk, step: int, *, keep: int, **options: Any) -> int:
    """Save one checkpoint in a forked process; its exit code. 0: saved, and all background work done."""
    child = os.fork()
    if child == 0:
        try:
            with open_manager(folder, keep=keep, asynchronous=False, disk=disk, **options) as manager:
                manager.save(step, step, step, make_state(step))
            if isinstance(disk, CrashingDisk) and disk.mode == "power":
                disk.cut_power()  # what save() promised must hold from the moment it returned
            os._exit(0)
        except BaseException:  # noqa: BLE001 - nothing of the child may reach pytest
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_every_call(template: Path, scratch: Path, mode: Mode, *, keep: int = 2) -> int:
    """Save step 3 over a copy of ``template`` (steps 1 and 2), once for each call at which it can die.

    After each death every folder named like a checkpoint is whole, the newest one loads, and the next save works and
    leaves no litter. Gives the number of deaths.
    """
    for at in range(1, 500):
        folder = scratch / f"{mode}-{at}"
        shutil.copytree(template, folder)
        code = save_in_child(folder, CrashingDisk(at, mode), 3, keep=keep)
        assert code in (0, DIED), f"the save that dies at call {at} ended with {code}"
        check_after(folder, at_least=3 if code == 0 else 2, at=at)
        shutil.rmtree(folder)
        if code == 0:
            return at - 1
    raise AssertionError("a save of three small files takes more than 500 calls")


def kill_while_replacing(scratch: Path, mode: Mode) -> int:
    """Save the only checkpoint again under another spec, dying at every call in turn; gives the number of deaths.

    Whatever the moment, step 3 is there for the next writer, and nothing else is left.
    """
    template = scratch / "only"
    with open_manager(template, keep=1) as manager:
        manager.save(3, 3, 3, make_state(3))
    for at in range(1, 500):
        folder = scratch / f"{mode}-{at}"
        shutil.copytree(template, folder)
        code = save_in_child(folder, CrashingDisk(at, mode), 3, keep=1, spec_sha256="cd" * 32)
        assert code in (0, DIED), f"the save that dies at call {at} ended with {code}"
        checkpoint, state = load_newest(folder)
        assert checkpoint.step == 3, f"death at call {at}: step {checkpoint.step} is the newest"
        assert_same_state(state, make_state(3))
        left = {path.name for path in folder.iterdir()}
        assert not [name for name in left if is_temporary(name)], f"death at call {at}: litter stays: {left}"
        shutil.rmtree(folder)
        if code == 0:
            assert checkpoint.manifest.spec_sha256 == "cd" * 32
            return at - 1
    raise AssertionError("a save of three small files takes more than 500 calls")


def check_after(folder: Path, *, at_least: int, at: int) -> None:
    """What must hold after any death: whole or absent, newest loads, next save works and cleans."""
    for path in step_folders(folder):
        try:
            damage = verify(open_checkpoint(path))
        except ManifestError as error:
            damage = [error.damage]
        assert not damage, f"death at call {at}: {path.name} is visible and broken: {damage}"
    checkpoint, state = load_newest(folder)
    assert checkpoint.step >= at_least, f"death at call {at}: step {checkpoint.step} is the newest"
    assert_same_state(state, make_state(checkpoint.step))
    with open_manager(folder, keep=2) as manager:
        manager.save(4, 4, 4, make_state(4))
    left = {path.name for path in folder.iterdir()}
    assert not [name for name in left if is_temporary(name)], f"death at call {at}: litter stays: {left}"
    assert load_newest(folder)[0].step == 4
