"""What a checkpoint is on disk: folder names, the manifest and what can be wrong with them.

Takes folders and bytes, gives frozen values; never changes a disk, hashes no data and knows no framework.
A folder without a manifest is no checkpoint; a manifest that contradicts itself, its folder or its files is damage.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, get_args

from trainwright import plain_json
from trainwright.models.layout import Layout, LayoutError

MANIFEST = "manifest.json"
VERSION = 1
Framework = Literal["dcp", "deepspeed", "hf", "other"]

_STEP_FOLDER = re.compile(r"step-(\d{8,})")
_TEMPORARY = re.compile(r"step-\d{8,}\.(?:tmp|old)-[0-9a-f]{8,32}")
_SET_ASIDE = re.compile(r"(step-\d{8,})\.old-[0-9a-f]{8,32}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Damage:
    """One thing wrong with a checkpoint: the file, relative to its folder, and what is wrong with it."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path} {self.what}"


class ManifestError(ValueError):
    """A manifest that cannot be believed. ``damage`` says why."""

    def __init__(self, what: str):
        self.damage = Damage(MANIFEST, what)
        super().__init__(str(self.damage))


@dataclass(frozen=True)
class FileRecord:
    """One file of a checkpoint: path relative to its folder (posix), size in bytes and sha256 in hex."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What a checkpoint holds and where training stood; ``samples`` and ``tokens`` count from the run's start."""

    step: int
    samples: int
    tokens: int
    attempt: int
    layout: Layout | None
    framework: Framework
    versions: dict[str, str]
    spec_sha256: str
    files: tuple[FileRecord, ...] = field(default=())
    best: int | None = None
    """Step of the best model when it was saved, whose checkpoint stays; None where nothing tells models apart."""

    @property
    def size(self) -> int:
        """Bytes of all files together, the manifest apart."""
        return sum(record.bytes for record in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values under the names of the contract, ``digest`` included."""
        values: dict[str, Any] = {
            "v": VERSION,
            "step": self.step,
            "samples": self.samples,
            "tokens": self.tokens,
            "attempt": self.attempt,
            "layout": self.layout.to_dict() if self.layout else None,
            "framework": self.framework,
            "versions": dict(sorted(self.versions.items())),
            "spec_sha256": self.spec_sha256,
            "best": self.best,
            "files": [asdict(record) for record in sorted(self.files, key=lambda record: record.path)],
        }
        return {**values, "digest": _digest(values)}

    def encode(self) -> bytes:
        """The text of ``manifest.json``."""
        return (json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Read ``manifest.json``. Anything that is not exactly what ``encode`` could have meant is a ManifestError.

        The digest covers every other value, so that a flipped bit in a count or a hash is seen here already.
        """
        try:
            values = plain_json.loads(text)
        except ValueError as error:
            raise ManifestError(f"is not JSON ({error})") from None
        if not isinstance(values, dict):
            raise ManifestError("is not a JSON object")
        if values.get("v") != VERSION:
            raise ManifestError(f"has version {values.get('v')!r}; this release reads version {VERSION}")
        claimed = values.pop("digest", None)
        if claimed != _digest(values):
            raise ManifestError("contradicts its own digest: it was changed after it was written")
        try:
            return cls._from_values(values)
        except (KeyError, TypeError, ValueError, LayoutError) as error:
            raise ManifestError(f"holds an impossible value ({type(error).__name__}: {error})") from None

    @classmethod
    def _from_values(cls, values: dict[str, Any]) -> Manifest:
        counts = {name: _count(name, values[name]) for name in ("step", "samples", "tokens", "attempt")}
        if values["framework"] not in get_args(Framework):
            raise ValueError(f"framework {values['framework']!r}; one of {', '.join(get_args(Framework))}")
        layout, best = values["layout"], values.get("best")  # older manifests have no best
        return cls(
            **counts,
            layout=None if layout is None else Layout.from_dict(layout),
            framework=values["framework"],
            versions={str(name): str(version) for name, version in values["versions"].items()},
            spec_sha256=str(values["spec_sha256"]),
            files=_records(values["files"]),
            best=None if best is None else _count("best", best),
        )


@dataclass(frozen=True)
class Checkpoint:
    """A folder and its believed manifest. That its files are whole is for ``verify`` to say."""

    folder: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        """Optimizer steps done when it was saved."""
        return self.manifest.step


def folder_name(step: int) -> str:
    """Name of the folder of a committed checkpoint: ``step-`` and at least eight digits."""
    return f"step-{step:08d}"


def step_of(name: str) -> int | None:
    """The step of a committed checkpoint's folder name, or None for any other name (backups, temporary folders)."""
    found = _STEP_FOLDER.fullmatch(name)
    return int(found[1]) if found and folder_name(int(found[1])) == name else None


def is_temporary(name: str) -> bool:
    """True for the name of a folder on its way in or out: ``step-<8 digits>.tmp-<hex>`` or ``.old-<hex>``."""
    return _TEMPORARY.fullmatch(name) is not None


def set_aside_from(name: str) -> str | None:
    """Name of the checkpoint that stood where its replacement was about to go; None for any other folder."""
    found = _SET_ASIDE.fullmatch(name)
    return found[1] if found else None


def step_folders(folder: Path) -> list[Path]:
    """Folders named like committed checkpoints, newest step first. Found by looking; no pointer file is trusted."""
    if not folder.is_dir():
        return []
    found = [(step, path) for path in folder.iterdir() if (step := step_of(path.name)) is not None and path.is_dir()]
    return [path for _, path in sorted(found, reverse=True)]


def open_checkpoint(folder: Path) -> Checkpoint:
    """Read a folder's manifest and hold it against the folder's name; ManifestError when it cannot be believed."""
    try:
        text = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise ManifestError("is missing: this checkpoint was never committed") from None
    except OSError as error:
        raise ManifestError(f"cannot be read ({error.strerror})") from None
    manifest = Manifest.decode(text)
    expected = step_of(folder.name)
    if expected is not None and manifest.step != expected:
        raise ManifestError(f"is of step {manifest.step}, but its folder is {folder.name}")
    return Checkpoint(folder, manifest)


def _digest(values: dict[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is {value!r}; a whole number is needed")
    return value


def _records(rows: list[dict[str, Any]]) -> tuple[FileRecord, ...]:
    """File records whose paths stay inside the folder: a manifest must not be able to name ``../../etc``."""
    found = []
    for row in rows:
        path = PurePosixPath(row["path"])
        if path.is_absolute() or ".." in path.parts or not path.parts or str(path) == MANIFEST:
            raise ValueError(f"file path {row['path']!r} leaves the folder or names the manifest")
        if not _SHA256.fullmatch(row["sha256"]):
            raise ValueError(f"{path}: {row['sha256']!r} is no sha256")
        found.append(FileRecord(str(path), _count("bytes", row["bytes"]), row["sha256"]))
    if len({record.path for record in found}) != len(found):
        raise ValueError("names a file twice")
    return tuple(found)
