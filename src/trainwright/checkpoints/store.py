"""The local commit protocol: how a checkpoint comes into being in a folder, and how it goes, crash or no crash.

Everything is written to ``step-N.tmp-<uuid>``: files, then the manifest, each synced, then the folder; one rename
makes it ``step-N``; the parent is synced. A checkpoint that it replaces is set aside as ``step-N.old-<uuid>`` before
and deleted after; a crash between puts it back. Deletion is the same backwards: one rename takes the checkpoint out,
then its files go. A reader thus sees a whole checkpoint or none. No torch; one process (rank 0) calls this.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
import uuid
from pathlib import Path

from trainwright.checkpoints.disk import Disk, write_file
from trainwright.checkpoints.format import (
    MANIFEST,
    Damage,
    Manifest,
    ManifestError,
    folder_name,
    is_temporary,
    open_checkpoint,
    set_aside_from,
    step_folders,
)
from trainwright.checkpoints.verify import glance, verify

LOCK = ".writer.lock"
_UNLOCKABLE_AGE = 3600.0  # seconds without a change after which a leftover counts as dead where locks do not work


class LocalStore:
    """One folder of checkpoints and the right to clean it.

    Whoever writes holds a lock on ``.writer.lock`` for as long as it lives; only its holder deletes. So leftovers of
    a crash are told from the work of a live writer, on this machine or, where the file system passes locks on
    (NFSv4, Lustre mounted with ``flock``), on another.
    """

    def __init__(self, folder: Path, disk: Disk | None = None):
        self.folder, self._disk = folder, disk or Disk()
        self._lock: int | None = None
        self._in_work: set[str] = set()

    def open(self) -> None:
        """Make the folder, take the lock if it is free and clear what a crash left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.clear_leftovers()

    def close(self) -> None:
        """Give the lock back."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def begin(self, step: int) -> str:
        """Make the folder that a save of ``step`` writes to; gives its name."""
        self.clear_leftovers()
        name = _temporary_name(step)
        self._in_work.add(name)
        self._disk.make_folder(self.folder / name)
        return name

    def commit(self, temporary: str, manifest: Manifest) -> Path:
        """Turn a finished temporary folder, its files already synced, into a checkpoint; gives its folder.

        A checkpoint of the same step that is whole and stands at the same sample stays, and the new one is dropped.
        Any other is deleted once the new one has its name: at every moment one of them is there or can be put back.
        """
        source, target = self.folder / temporary, self.folder / folder_name(manifest.step)
        write_file(self._disk, source / MANIFEST, manifest.encode())
        self._disk.sync_folder(source)
        if target.exists():
            if _same_state(target, manifest):
                self.drop(temporary)
                return target
            self._replace(target, source)
        else:
            self._disk.rename(source, target)
            self._disk.sync_folder(self.folder)
        self._in_work.discard(temporary)
        return target

    def drop(self, temporary: str) -> None:
        """Remove the folder of a save that failed. A part that cannot be removed is left for ``clear_leftovers``."""
        shutil.rmtree(self.folder / temporary, ignore_errors=True)
        self._in_work.discard(temporary)

    def delete(self, step: int) -> None:
        """Delete a checkpoint: out of sight by one rename, then off the disk."""
        self._take_out(self.folder / folder_name(step))

    def look(self) -> tuple[set[int], dict[int, list[Damage]]]:
        """Steps that look good without reading their data, and the others with what is wrong."""
        good: set[int] = set()
        bad: dict[int, list[Damage]] = {}
        for path in step_folders(self.folder):
            step = int(path.name.partition("-")[2])
            try:
                damage = glance(open_checkpoint(path))
            except ManifestError as error:
                damage = [error.damage]
            if damage:
                bad[step] = damage
            else:
                good.add(step)
        return good, bad

    def leftovers(self) -> list[Path]:
        """Temporary folders that are not of a save in progress here."""
        if not self.folder.is_dir():
            return []
        names = sorted(path.name for path in self.folder.iterdir() if is_temporary(path.name))
        return [self.folder / name for name in names if name not in self._in_work]

    def clear_leftovers(self) -> list[Path]:
        """Remove what crashed saves and deletions left, unless another writer lives; gives what was removed.

        A checkpoint that was set aside for one that never came gets its name back.
        """
        found = self.leftovers()
        if not found:
            self.owned()  # a writer holds the lock also when there is nothing to clear
            return []
        if not self.owned():
            return []
        removed = [path for path in found if not self._put_back(path)]
        for path in removed:
            self._disk.remove_tree(path)
        return removed

    def owned(self) -> bool:
        """True when this store holds the folder's lock or can take it now. Only then may anything be deleted."""
        if self._lock is not None:
            return True
        descriptor = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            return all(_age(path) > _UNLOCKABLE_AGE for path in self.leftovers())
        self._lock = descriptor
        return True

    def _replace(self, target: Path, source: Path) -> None:
        """Let ``source`` take the name of ``target``, which goes only when that is on the disk."""
        aside = self.folder / f"{target.name}.old-{uuid.uuid4().hex[:12]}"
        self._disk.rename(target, aside)
        try:
            self._disk.rename(source, target)
        except OSError:
            self._disk.rename(aside, target)
            raise
        self._disk.sync_folder(self.folder)
        self._disk.remove_tree(aside)

    def _put_back(self, path: Path) -> bool:
        """Give a whole checkpoint that was set aside its name back, if that is free; False when it is litter."""
        name = set_aside_from(path.name)
        if name is None or (self.folder / name).exists():
            return False
        try:
            if glance(open_checkpoint(path)):
                return False
        except ManifestError:
            return False
        self._disk.rename(path, self.folder / name)
        self._disk.sync_folder(self.folder)
        return True

    def _take_out(self, target: Path) -> None:
        step = int(target.name.partition("-")[2])
        doomed = self.folder / _temporary_name(step)
        self._disk.rename(target, doomed)
        self._disk.sync_folder(self.folder)
        self._disk.remove_tree(doomed)


def _temporary_name(step: int) -> str:
    return f"{folder_name(step)}.tmp-{uuid.uuid4().hex[:12]}"


def _same_state(target: Path, manifest: Manifest) -> bool:
    """True when ``target`` is whole and of the same spec, step, samples and tokens: by determinism the same state."""
    try:
        there = open_checkpoint(target)
    except ManifestError:
        return False
    fields = ("step", "samples", "tokens", "spec_sha256")
    same = all(getattr(there.manifest, name) == getattr(manifest, name) for name in fields)
    return same and not verify(there)


def _age(path: Path) -> float:
    """Seconds since anything in a folder, or its own name, changed."""
    changes = [path.stat(), *(inner.stat() for inner in path.rglob("*"))]
    return time.time() - max(max(status.st_mtime, status.st_ctime) for status in changes)
