"""Lineage: what a model was made from, as hashes that can be compared later.

Takes a run's files, gives plain data: the run, the base model, the data, the code and the versions of libraries.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import trainwright
from trainwright.checkpoints.format import Checkpoint
from trainwright.data.base_model import BaseModel
from trainwright.data.manifest import Manifest
from trainwright.data.run_inputs import base_of
from trainwright.errors import TrainwrightError
from trainwright.on_disk import sha256_of
from trainwright.runs.folder import RunFolder, read_json
from trainwright.spec.model import Model, RunSpec
from trainwright.spec.paths import is_local

_LIBRARIES = ("torch", "transformers", "peft", "tokenizers", "safetensors", "numpy")


def lineage(run: RunFolder, spec: RunSpec, checkpoint: Checkpoint) -> dict[str, Any]:
    """Everything that a model's making depends on."""
    manifest = checkpoint.manifest
    return {
        "v": 1,
        "run": {
            "run_id": run.run_id,
            "spec_sha256": run.spec().sha256,  # the run's own: what is registered with may be changed by hand
            "step": manifest.step,
            "samples": manifest.samples,
            "tokens": manifest.tokens,
            "layout": manifest.layout.to_dict() if manifest.layout else None,
        },
        "model": base_model(spec.model, base_of(run)) if spec.model else None,
        "data": data(run),
        "code": {"trainwright": trainwright.__version__, "sha256": code_sha256(Path(trainwright.__file__).parent)},
        "versions": versions(),
    }


def base_model(model: Model, base: BaseModel | None = None) -> dict[str, Any]:
    """Address of the model that training began with; for a folder also the hash of every file.

    ``base`` is what the run noted when it began: the commit behind the spec's revision, or one hash over config and
    weights.
    """
    record: dict[str, Any] = {"path": model.path, "revision": model.revision, "from_scratch": model.from_scratch}
    if base is not None and base.path == model.path:
        record |= {"revision": base.revision or model.revision, "sha256": base.sha256}
    folder = Path(model.path)
    if is_local(model.path) and folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        with ThreadPoolExecutor(8) as pool:  # hashing releases the GIL
            hashes = list(pool.map(sha256_of, files))
        record["files"] = {
            path.relative_to(folder).as_posix(): digest for path, digest in zip(files, hashes, strict=True)
        }
    return record


def data(run: RunFolder) -> dict[str, Any] | None:
    """Digest of the prepared data and the hash of each source; None when the run has no prepared data."""
    record = read_json(run.data)
    if record is None:
        return None
    values: dict[str, Any] = {"digest": record.get("digest")}
    try:
        manifest = Manifest.read(Path(str(record.get("folder"))))
    except TrainwrightError:  # cleared since: its digest is known all the same
        return values
    values["tokenizer_sha256"] = manifest.tokenizer.sha256
    values["sources"] = [
        {"path": s.path, "split": s.split, "files": s.files, "bytes": s.bytes, "sha256": s.sha256}
        for s in manifest.sources
    ]
    return values


def code_sha256(package: Path) -> str:
    """Hash over names and contents of a package: two equal ones ran the same code, installed or checked out."""
    whole = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            whole.update(f"{path.relative_to(package).as_posix()}\0{sha256_of(path)}\n".encode())
    return whole.hexdigest()


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
