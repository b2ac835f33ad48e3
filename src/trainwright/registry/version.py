"""What a registered version is: a folder with a manifest of every file, and how it is proved whole.

Takes folders, gives frozen values; never changes a disk. A folder without a manifest is no version.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from trainwright import plain_json
from trainwright.checkpoints.format import Damage, FileRecord
from trainwright.checkpoints.verify import Progress, verify_files
from trainwright.errors import AnswerNo

MANIFEST = "manifest.json"
SCHEMA = 1
WEIGHTS = ".safetensors"


class VersionDamaged(AnswerNo):
    """A version whose bytes are not those that were registered. ``damage`` lists every file."""

    def __init__(self, folder: Path, damage: list[Damage]):
        self.folder, self.damage = folder, tuple(damage)
        super().__init__(
            f"{folder} is damaged: {'; '.join(map(str, damage))}",
            "use another version, or register the run again with `trainwright register`",
        )


@dataclass(frozen=True)
class Record:
    """What the manifest says: where the model comes from, and every file with size and sha256."""

    name: str
    run_id: str
    step: int
    created: str
    """UTC, ISO 8601."""
    files: tuple[FileRecord, ...]

    @property
    def size(self) -> int:
        """Bytes of all files together, the manifest apart."""
        return sum(record.bytes for record in self.files)

    @property
    def weights(self) -> dict[str, str]:
        """Sha256 of each file of weights: which model this is, whatever its card says."""
        return {record.path: record.sha256 for record in self.files if record.path.endswith(WEIGHTS)}

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, with a digest over all the others."""
        files = [asdict(record) for record in self.files]
        values = {
            "v": SCHEMA,
            "name": self.name,
            "run_id": self.run_id,
            "step": self.step,
            "created": self.created,
            "files": files,
        }
        return {**values, "digest": _digest(values)}

    def encode(self) -> bytes:
        """The text of ``manifest.json``."""
        return (json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def decode(cls, text: bytes) -> Record:
        """Read ``manifest.json``; ValueError, with the reason, for anything that ``encode`` cannot have written."""
        values = plain_json.loads(text)
        if not isinstance(values, dict) or values.get("v") != SCHEMA:
            raise ValueError(f"is not a manifest of version {SCHEMA}")
        if values.pop("digest", None) != _digest(values):
            raise ValueError("contradicts its own digest: it was changed after it was written")
        files = tuple(FileRecord(**row) for row in values["files"])
        for record in files:
            path = PurePosixPath(record.path)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"names {record.path}, which is outside the folder")
        return cls(str(values["name"]), str(values["run_id"]), int(values["step"]), str(values["created"]), files)


@dataclass(frozen=True)
class Version:
    """One registered model. The folder itself is what ``from_pretrained`` loads."""

    folder: Path
    record: Record

    @property
    def number(self) -> int:
        """1, 2, 3, … in the order of registration."""
        return int(self.folder.name)

    def verify(self, progress: Progress | None = None) -> list[Damage]:
        """Read every byte; everything that is wrong, files that do not belong there included."""
        listed = {record.path for record in self.record.files} | {MANIFEST}
        found = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if not path.is_dir()}
        strange = [Damage(path, "is not in the manifest") for path in sorted(found - listed)]
        return verify_files(self.folder, self.record.files, progress=progress) + strange

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values for people and programs."""
        return {
            "name": self.record.name,
            "version": self.number,
            "path": str(self.folder),
            "run_id": self.record.run_id,
            "step": self.record.step,
            "created": self.record.created,
            "bytes": self.record.size,
        }


def open_version(folder: Path) -> Version:
    """Read a version's manifest. VersionDamaged when it is missing or cannot be believed."""
    try:
        return Version(folder, Record.decode((folder / MANIFEST).read_bytes()))
    except OSError as error:
        raise VersionDamaged(folder, [Damage(MANIFEST, f"cannot be read ({error.strerror})")]) from None
    except (ValueError, KeyError, TypeError) as error:
        raise VersionDamaged(folder, [Damage(MANIFEST, str(error))]) from None


def _digest(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
