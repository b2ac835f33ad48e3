"""Disks that die, fail or lie at a chosen call. They stand in for ``trainwright.checkpoints.disk.Disk``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from trainwright.checkpoints.disk import Disk

Mode = Literal["process", "torn", "power"]
DIED = 66


class CrashingDisk(Disk):
    """Ends the process at the ``at``-th call that changes the disk.

    ``process``: the call does not happen. ``torn``: half of it does. ``power``: besides, files that were not synced
    lose their bytes, and renames whose folder was not synced did not happen.
    """

    def __init__(self, at: int, mode: Mode):
        self.at, self.mode, self.calls = at, mode, 0
        self._paths: dict[int, Path] = {}
        self._unsynced: set[Path] = set()
        self._renames: list[tuple[Path, Path]] = []

    def create(self, path: Path) -> int:
        self._count(lambda: None)
        descriptor = super().create(path)
        self._paths[descriptor] = path
        self._unsynced.add(path)
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        self._count(lambda: os.write(descriptor, data[: len(data) // 2]))
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._count(lambda: None)
        super().sync(descriptor)
        self._unsynced.discard(self._paths[descriptor])

    def sync_folder(self, folder: Path) -> None:
        self._count(lambda: None)
        super().sync_folder(folder)
        self._renames = [(a, b) for a, b in self._renames if b.parent != folder]

    def rename(self, source: Path, target: Path) -> None:
        self._count(lambda: None)
        super().rename(source, target)
        self._renames.append((source, target))
        self._unsynced = {_moved(path, source, target) for path in self._unsynced}

    def make_folder(self, folder: Path) -> None:
        self._count(lambda: None)
        super().make_folder(folder)

    def remove_tree(self, folder: Path) -> None:
        self._count(lambda: [path.unlink() for path in sorted(folder.iterdir())[::2]])
        super().remove_tree(folder)

    def cut_power(self) -> None:
        """Lose what was not synced."""
        for path in self._unsynced:
            if path.exists():
                os.truncate(path, 0)
        for source, target in reversed(self._renames):
            if target.exists():
                os.rename(target, source)

    def _count(self, half: Callable[[], object]) -> None:
        self.calls += 1
        if self.calls != self.at:
            return
        if self.mode != "process":
            half()
        if self.mode == "power":
            self.cut_power()
        os._exit(DIED)


class FailingDisk(Disk):
    """Raises an OSError at a call of ``operation`` on a file whose name contains ``name``, as long as ``broken``."""

    def __init__(self, operation: str, code: int, name: str = ""):
        self.operation, self.code, self.name, self.broken = operation, code, name, True
        self._paths: dict[int, Path] = {}

    def create(self, path: Path) -> int:
        self._maybe("create", path)
        descriptor = super().create(path)
        self._paths[descriptor] = path
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        self._maybe("write", self._paths[descriptor])
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self._maybe("sync", self._paths[descriptor])
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._maybe("rename", target)
        super().rename(source, target)

    def remove_tree(self, folder: Path) -> None:
        self._maybe("remove_tree", folder)
        super().remove_tree(folder)

    def _maybe(self, operation: str, path: Path) -> None:
        if self.broken and operation == self.operation and self.name in path.name:
            raise OSError(self.code, os.strerror(self.code), str(path))


class LyingDisk(Disk):
    """Flips a bit of every data file on its way to the platter, and says that all is well."""

    def __init__(self) -> None:
        self.lies = False

    def write(self, descriptor: int, data: memoryview) -> int:
        if not self.lies or len(data) < 4096:
            return super().write(descriptor, data)
        spoilt = bytearray(data)
        spoilt[len(spoilt) // 2] ^= 4
        return super().write(descriptor, memoryview(spoilt))


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def _moved(path: Path, source: Path, target: Path) -> Path:
    return target / path.relative_to(source) if path.is_relative_to(source) else path
