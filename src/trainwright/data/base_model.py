"""Which base model a run begins with, so that it can be told later whether it still is the same one.

Takes the spec's model and its folder here; gives a commit of the Hub, or a hash of the files that training reads.
It loads no weights, and must not know runs.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainwright.data import fingerprints
from trainwright.data.sources import SourceFile
from trainwright.spec.model import Model, RunSpec
from trainwright.spec.paths import is_local, is_remote

_COMMIT = re.compile(r"[0-9a-f]{40}")
_WORKERS = 8  # hashing releases the GIL


@dataclass(frozen=True)
class BaseModel:
    """Address as the spec has it, and what is behind it: exactly one of ``revision`` and ``sha256`` is set."""

    path: str
    revision: str | None = None
    """Commit on the Hub, from which everything of the model follows."""
    sha256: str | None = None
    """Over names and contents of config and weights; of the config alone when training starts from scratch."""

    @property
    def identity(self) -> str | None:
        """What must not change while a run lasts."""
        return self.revision or self.sha256

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_record(cls, values: object) -> BaseModel | None:
        """Read what ``to_dict`` gave; None for anything else."""
        if not isinstance(values, dict) or not isinstance(values.get("path"), str):
            return None
        return cls(values["path"], values.get("revision"), values.get("sha256"))


def identify(model: Model, folder: Path, memory: Path) -> BaseModel:
    """What is in ``folder``, to which ``model.path`` has led. ``memory`` is a folder for hashes that are remembered.

    Raises InputError for a file that cannot be read.
    """
    if not is_local(model.path) and not is_remote(model.path) and (commit := hub_commit(folder)):
        return BaseModel(model.path, revision=commit)
    names = ["config.json"]
    if not model.from_scratch:
        names += sorted(p.name for kind in ("*.safetensors", "*.safetensors.index.json") for p in folder.glob(kind))
    files = [
        SourceFile(name, folder / name, (folder / name).stat().st_size) for name in names if (folder / name).is_file()
    ]
    hashes = fingerprints.hash_files(files, f"model {folder}", "model.path", memory, _WORKERS, lambda _: None)
    return BaseModel(model.path, sha256=fingerprints.combined(hashes))


def hub_commit(folder: Path) -> str | None:
    """The commit of a snapshot in the Hub's cache, whose folder is named by it; None for other folders."""
    return folder.name if folder.parent.name == "snapshots" and _COMMIT.fullmatch(folder.name) else None


def pin(spec: RunSpec, base: BaseModel | None) -> RunSpec:
    """The spec with the commit that ``base`` is of, so that a branch that moves on moves nothing here."""
    model = spec.model
    if model is None or base is None or base.revision is None or base.path != model.path:
        return spec
    return spec.model_copy(update={"model": model.model_copy(update={"revision": base.revision})})
