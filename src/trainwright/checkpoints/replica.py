"""Checkpoints in an object store: the same files under ``step-<8 digits>/``, committed by their manifest.

Files go up first, each hashed on its way and its size asked back; the manifest goes last, only if there is none yet:
it is the commit. Coming down, bytes are hashed before the folder gets its name. No manifest, no checkpoint. No torch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trainwright.checkpoints.bucket import ObjectStore
from trainwright.checkpoints.disk import Disk, HashingStream
from trainwright.checkpoints.failures import CheckpointDamaged, CheckpointFailed
from trainwright.checkpoints.format import (
    MANIFEST,
    Checkpoint,
    Damage,
    FileRecord,
    Manifest,
    ManifestError,
    folder_name,
    open_checkpoint,
    step_of,
)
from trainwright.checkpoints.resume import Report, warn
from trainwright.checkpoints.store import LocalStore
from trainwright.checkpoints.verify import Progress

_PIECE = 1 << 20


def upload(checkpoint: Checkpoint, store: ObjectStore, progress: Progress | None = None) -> bool:
    """Copy a checkpoint into the store; False when the very same one is there already.

    CheckpointDamaged when a local file is not what its manifest says: then no manifest goes up. CheckpointFailed when
    another checkpoint of this step is there, or what arrived has another size.
    """
    name, manifest = folder_name(checkpoint.step), checkpoint.manifest
    there = _manifest(store, name)
    if there is not None:
        return _same(there, checkpoint)
    done = 0
    for record in manifest.files:
        store.put(f"{name}/{record.path}", _hashed(checkpoint.folder, record))
        size = store.size(f"{name}/{record.path}")
        if size != record.bytes:
            raise CheckpointFailed(f"{name}/{record.path} arrived with {size} bytes instead of {record.bytes}")
        done += record.bytes
        if progress:
            progress(done, manifest.size)
    if store.create(f"{name}/{MANIFEST}", manifest.encode()):
        return True
    return _same(_manifest(store, name) or b"", checkpoint)  # another upload of it was quicker


def committed(store: ObjectStore) -> list[int]:
    """Steps with a manifest in the store, newest first."""
    found = (key.split("/") for key in store.keys("step-"))
    steps = {step_of(parts[0]) for parts in found if len(parts) == 2 and parts[1] == MANIFEST}
    return sorted((step for step in steps if step is not None), reverse=True)


def download(
    store: ObjectStore, step: int, folder: Path, progress: Progress | None = None, disk: Disk | None = None
) -> Checkpoint:
    """Copy one checkpoint from the store into a folder of checkpoints, committed there as a save would be.

    CheckpointDamaged when it is missing or any byte is not what the manifest says; the folder then stays as it was.
    """
    name, disk = folder_name(step), disk or Disk()
    try:
        manifest = Manifest.decode(_manifest(store, name) or b"")
        if manifest.step != step:
            raise ManifestError(f"is of step {manifest.step}, but its folder is {name}")
    except ManifestError as error:
        raise CheckpointDamaged(Path(name), [error.damage]) from None
    local = LocalStore(folder, disk)
    local.open()
    try:
        temporary = local.begin(step)
        try:
            _fetch(store, name, manifest, folder / temporary, disk, progress)
            return open_checkpoint(local.commit(temporary, manifest))
        except BaseException:
            local.drop(temporary)
            raise
    finally:
        local.close()


def newest(
    store: ObjectStore, folder: Path, progress: Progress | None = None, report: Report = warn
) -> Checkpoint | None:
    """The newest checkpoint of the store that arrives whole, in ``folder``; damaged ones are reported."""
    for step in committed(store):
        try:
            return download(store, step, folder, progress)
        except CheckpointDamaged as damaged:
            report(damaged.folder, list(damaged.damage))
    return None


def _fetch(
    store: ObjectStore, name: str, manifest: Manifest, target: Path, disk: Disk, progress: Progress | None
) -> None:
    damage, done = [], 0
    for record in manifest.files:
        place = target / record.path
        place.parent.mkdir(parents=True, exist_ok=True)
        stream = HashingStream(disk, place)
        try:
            for piece in store.get(f"{name}/{record.path}"):
                stream.write(piece)
            stream.close()
        except FileNotFoundError:
            damage.append(Damage(record.path, "is missing"))
            continue
        finally:
            stream.abandon()
        found = stream.record()
        if (found.bytes, found.sha256) != (record.bytes, record.sha256):
            damage.append(Damage(record.path, f"was changed: {found.bytes} bytes, sha256 {found.sha256[:12]}…"))
        done += record.bytes
        if progress:
            progress(done, manifest.size)
    if damage:
        raise CheckpointDamaged(Path(name), damage)


def _hashed(folder: Path, record: FileRecord) -> Iterator[bytes]:
    """A file's pieces; the last one is given only when all of them together are what the manifest says."""
    digest, held = hashlib.sha256(), b""
    try:
        with (folder / record.path).open("rb") as handle:
            while piece := handle.read(_PIECE):
                digest.update(piece)
                if held:
                    yield held
                held = piece
    except OSError as error:
        raise CheckpointDamaged(folder, [Damage(record.path, f"cannot be read ({error.strerror})")]) from None
    if digest.hexdigest() != record.sha256:
        raise CheckpointDamaged(folder, [Damage(record.path, "was changed since it was saved")])
    yield held


def _manifest(store: ObjectStore, name: str) -> bytes | None:
    try:
        return b"".join(store.get(f"{name}/{MANIFEST}"))
    except FileNotFoundError:
        return None


def _same(there: bytes, checkpoint: Checkpoint) -> bool:
    """False ("nothing to do") when the store's manifest is this checkpoint's; CheckpointFailed when another's."""
    if there == checkpoint.manifest.encode():
        return False
    raise CheckpointFailed(
        f"the store already holds another checkpoint of step {checkpoint.step}",
        "two runs must not share a prefix; give this one another storage",
    )
