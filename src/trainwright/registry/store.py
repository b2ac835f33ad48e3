"""The registry folder: ``<registry>/<name>/<version>/``, and aliases as links beside the versions.

A version comes into being by one rename of a finished, synced folder: a reader sees all of it or nothing, and two
registrations at once get two numbers. Standard library only; knows nothing of runs or models.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from trainwright.checkpoints.disk import Disk, HashingStream, write_file
from trainwright.checkpoints.format import FileRecord
from trainwright.checkpoints.verify import Progress
from trainwright.errors import InputError, Problem, SystemUnreachable, did_you_mean
from trainwright.registry.version import MANIFEST, Record, Version, VersionDamaged, open_version

_NUMBER = re.compile(r"[1-9]\d*")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_INCOMING = ".incoming-"
_LOCK = ".lock"
_CHUNK = 1 << 20


class Incoming:
    """A version in the making: files are hashed while they are written, and none is read back."""

    def __init__(self, folder: Path, disk: Disk):
        self.folder, self._disk = folder, disk
        self.files: list[FileRecord] = []

    def write(self, path: str, data: bytes) -> None:
        """Add one small file."""
        self._record(path, write_file(self._disk, self._place(path), data))

    def copy(self, source: Path, path: str) -> None:
        """Add a copy of a file."""
        stream = HashingStream(self._disk, self._place(path))
        try:
            with source.open("rb", buffering=0) as handle:
                while chunk := handle.read(_CHUNK):
                    stream.write(chunk)
            stream.close()
        finally:
            stream.abandon()
        self._record(path, stream.record())

    def copy_tree(self, source: Path) -> None:
        """Add copies of all files of a folder, under the names they have there."""
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            self.copy(file, file.relative_to(source).as_posix())

    def _place(self, path: str) -> Path:
        target = self.folder / path
        parent = self.folder
        for part in Path(path).parts[:-1]:
            parent = parent / part
            if not parent.is_dir():
                self._disk.make_folder(parent)
        return target

    def _record(self, path: str, record: FileRecord) -> None:
        self.files.append(FileRecord(path, record.bytes, record.sha256))


class Registry:
    """A folder of models. Every method that reads finds what is there by looking; nothing is cached."""

    def __init__(self, root: Path, disk: Disk | None = None):
        self.root, self._disk = root, disk or Disk()

    def names(self) -> list[str]:
        """Models with at least one version."""
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.is_dir() and self.numbers(path.name))

    def numbers(self, name: str) -> list[int]:
        """Version numbers of a model, oldest first."""
        folder = self.root / name
        if not folder.is_dir():
            return []
        found = [path for path in folder.iterdir() if _NUMBER.fullmatch(path.name) and (path / MANIFEST).is_file()]
        return sorted(int(path.name) for path in found)

    def aliases(self, name: str) -> dict[str, int]:
        """Aliases of a model and the version each points at."""
        folder = self.root / name
        links = [path for path in folder.iterdir() if path.is_symlink()] if folder.is_dir() else []
        targets = {path.name: os.readlink(path) for path in links}
        return {alias: int(target) for alias, target in sorted(targets.items()) if _NUMBER.fullmatch(target)}

    def open(
        self, name: str, version: int | str = "latest", *, verify: bool = True, progress: Progress | None = None
    ) -> Version:
        """A version by number or alias, proved whole unless told otherwise.

        InputError when there is none, VersionDamaged when a byte is not what was registered.
        """
        check_name(name)
        wanted = str(version)
        number = int(wanted) if _NUMBER.fullmatch(wanted) else self.aliases(name).get(wanted)
        if number is None or number not in self.numbers(name):
            raise InputError([self._no_such(name, wanted)])
        found = open_version(self.root / name / str(number))
        if verify and (damage := found.verify(progress)):
            raise VersionDamaged(found.folder, damage)
        return found

    def of_run(self, name: str, run_id: str, step: int, weights: dict[str, str] | None = None) -> Version | None:
        """The newest whole version that came from this run and step, or None.

        ``weights`` (name → sha256): of exactly these weights. Another export of the step is another version.
        """
        for number in reversed(self.numbers(name)):
            with suppress(VersionDamaged):
                version = open_version(self.root / name / str(number))
                same = (version.record.run_id, version.record.step) == (run_id, step)
                if same and (weights is None or version.record.weights == weights) and not version.verify():
                    return version
        return None

    def refuse_unwritable(self, name: str) -> None:
        """SystemUnreachable when no version of this model could be made here; InputError for a name that is none.

        Asked before minutes of evaluation, not after them.
        """
        check_name(name)
        folder = self.root / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._incoming(folder) as trial:
                trial.folder.rmdir()
        except OSError as error:
            why = error.strerror or str(error)
            way_out = "make it writable, or name another: --registry FOLDER, register.path in the spec"
            raise SystemUnreachable(f"the registry {self.root} cannot be written: {why}", way_out) from error

    def publish(
        self, name: str, run_id: str, step: int, fill: Callable[[Incoming], None], aliases: tuple[str, ...] = ()
    ) -> Version:
        """Make the next version from what ``fill`` adds. Whatever goes wrong, nothing half-made is visible.

        Aliases move to the new version unless one already points at a later one.
        """
        check_name(name)
        check_aliases(aliases)
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        self._sweep(folder)
        with self._incoming(folder) as incoming:
            fill(incoming)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            files = tuple(sorted(incoming.files, key=lambda file: file.path))
            record = Record(name, run_id, step, created, files)
            write_file(self._disk, incoming.folder / MANIFEST, record.encode())
            for path in [incoming.folder, *(p for p in incoming.folder.rglob("*") if p.is_dir())]:
                self._disk.sync_folder(path)
            place = self._take_number(folder, incoming.folder)
        self._disk.sync_folder(folder)
        for alias in aliases:
            self.point(name, alias, int(place.name), only_forward=True)
        return Version(place, record)

    def point(self, name: str, alias: str, number: int, *, only_forward: bool = False) -> None:
        """Let an alias mean a version; readers see the old or the new one. InputError for a version that is none."""
        check_aliases((alias,))
        if number not in self.numbers(name):
            raise InputError([self._no_such(name, str(number))])
        folder = self.root / name
        with _locked(folder / _LOCK):
            for left in folder.glob(f"{_INCOMING}*.alias"):  # by a killed one: this lock is held while they are used
                left.unlink(missing_ok=True)
            if only_forward and self.aliases(name).get(alias, 0) > number:
                return
            temporary = folder / f"{_INCOMING}{uuid.uuid4().hex}.alias"
            os.symlink(str(number), temporary)
            self._disk.rename(temporary, folder / alias)
            self._disk.sync_folder(folder)

    @contextmanager
    def _incoming(self, folder: Path) -> Iterator[Incoming]:
        """A folder that nobody takes for a version, locked while its maker lives, gone when it fails."""
        place = folder / f"{_INCOMING}{uuid.uuid4().hex}"
        with _locked(place.with_suffix(".lock"), remove=True):
            self._disk.make_folder(place)
            try:
                yield Incoming(place, self._disk)
            except BaseException:
                shutil.rmtree(place, ignore_errors=True)
                raise

    def _take_number(self, folder: Path, incoming: Path) -> Path:
        """Rename to the next free number; when another registration takes it first, to the one after."""
        number = max((int(path.name) for path in folder.iterdir() if _NUMBER.fullmatch(path.name)), default=0) + 1
        while True:
            try:
                self._disk.rename(incoming, folder / str(number))
            except OSError:
                if not (folder / str(number)).exists():
                    raise
                number += 1
            else:
                return folder / str(number)

    def _sweep(self, folder: Path) -> None:
        """Delete what killed registrations left: folders and links whose maker holds no lock any more."""
        for lock in folder.glob(f"{_INCOMING}*.lock"):
            with suppress(OSError), lock.open() as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()

    def _no_such(self, name: str, version: str) -> Problem:
        numbers = self.numbers(name)
        if not numbers:
            known = self.names()
            instead = did_you_mean(name, known) if known else "`trainwright register RUN` makes the first version"
            return Problem(str(self.root), what=f"has no model {name}", instead=instead)
        choices = [*map(str, numbers), *self.aliases(name)]
        return Problem(
            str(self.root / name), what=f"has no version {version}", instead=did_you_mean(version, choices)
        )


def check_name(name: str) -> None:
    """InputError for a model name that is no plain folder name."""
    if not _NAME.fullmatch(name):
        instead = "use lower-case letters, digits, '.', '_' and '-', at most 64 of them"
        raise InputError([Problem("register", field="name", what=f"{name!r} is no name of a model", instead=instead)])


def check_aliases(aliases: tuple[str, ...]) -> None:
    """InputError for a name that cannot stand beside version numbers."""
    bad = [alias for alias in aliases if not _NAME.fullmatch(alias) or _NUMBER.fullmatch(alias)]
    if bad:
        instead = "use lower-case letters, digits, '.', '_' and '-', not a number alone"
        raise InputError(
            [Problem("register", field="aliases", what=f"{a!r} is no alias", instead=instead) for a in bad]
        )


@contextmanager
def _locked(path: Path, remove: bool = False) -> Iterator[None]:
    """Hold a lock on a file. Where the file system has none, go on without: the rename alone keeps versions whole."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if remove:
            path.unlink(missing_ok=True)
        os.close(descriptor)
