"""An export takes the place of an older one: a death at any moment leaves one of them, whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright.checkpoints.disk import Disk
from trainwright.registry.replace_folder import replace_folder, sweep

DIED = 78


class DyingDisk(Disk):
    """Ends the process at the ``at``-th call."""

    def __init__(self, at: int):
        self.left = at

    def _count(self) -> None:
        self.left -= 1
        if not self.left:
            os._exit(DIED)

    def make_folder(self, folder: Path) -> None:
        self._count()
        super().make_folder(folder)

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)

    def sync(self, descriptor: int) -> None:
        self._count()
        super().sync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        self._count()
        super().sync_folder(folder)


def put(target: Path, text: str, disk: Disk | None = None) -> None:
    def fill(folder: Path) -> None:
        (folder / "inner").mkdir()
        for name in ("a", "inner/b"):
            (folder / name).write_text(text)

    replace_folder(target, fill, disk)


def content(target: Path) -> set[str]:
    return {(target / name).read_text() for name in ("a", "inner/b")}


def left_beside(target: Path) -> set[str]:
    return {path.name for path in target.parent.iterdir()} - {target.name}


def test_a_death_at_any_call_leaves_one_whole_folder_and_the_next_clears_up(tmp_path: Path) -> None:
    for at in range(1, 50):
        target = tmp_path / str(at) / "export"
        put(target, "old")
        child = os.fork()
        if not child:
            put(target, "new", DyingDisk(at))
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sweep(target)
        assert content(target) in ({"old"}, {"new"}), f"death at call {at}"
        assert left_beside(target) == set()
        put(target, "next")
        assert content(target) == {"next"}
        if code == 0:
            assert at > 6, "the syncs and both renames are among the calls"
            return
        assert code == DIED
    raise AssertionError("never finished")


def test_what_another_is_filling_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "export"

    def fill(folder: Path) -> None:
        (folder / "a").write_text("outer")
        put(target, "inner")
        assert (folder / "a").read_text() == "outer"

    replace_folder(target, fill)
    assert (target / "a").read_text() == "outer"
    assert left_beside(target) == set()


def test_an_error_while_filling_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "export"
    put(target, "old")

    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError):
        replace_folder(target, fail)
    assert content(target) == {"old"}
    assert left_beside(target) == set()
