"""What a person asks of a folder of checkpoints: what is there, is it whole, what may go. No torch.

Takes a folder; gives rows of plain values. Only ``prune`` deletes, by the same rules as training does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.checkpoints.failures import CheckpointDamaged
from trainwright.checkpoints.format import (
    Checkpoint,
    Damage,
    ManifestError,
    open_checkpoint,
    step_folders,
    step_of,
)
from trainwright.checkpoints.retention import surplus
from trainwright.checkpoints.store import LocalStore
from trainwright.checkpoints.verify import Progress, glance, verify
from trainwright.errors import AnswerNo, InputError, Problem


@dataclass(frozen=True)
class Row:
    """One checkpoint. ``checkpoint`` is None when its manifest cannot be believed; then ``damage`` says why."""

    folder: Path
    step: int
    checkpoint: Checkpoint | None
    damage: tuple[Damage, ...]
    verified: bool = False
    """True when every byte was read; otherwise only what shows without reading data is known."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values."""
        manifest = self.checkpoint.manifest if self.checkpoint else None
        return {
            "step": self.step,
            "folder": str(self.folder),
            "samples": manifest.samples if manifest else None,
            "tokens": manifest.tokens if manifest else None,
            "attempt": manifest.attempt if manifest else None,
            "layout": manifest.layout.to_dict() if manifest and manifest.layout else None,
            "bytes": manifest.size if manifest else None,
            "ok": not self.damage,
            "verified": self.verified,
            "damage": [{"path": item.path, "what": item.what} for item in self.damage],
        }

    def __str__(self) -> str:
        manifest = self.checkpoint.manifest if self.checkpoint else None
        counts = "samples and tokens unknown"
        if manifest:
            counts = f"{manifest.samples:,} samples, {manifest.tokens:,} tokens, {_size(manifest.size)}"
        state = "verified" if self.verified else "complete, bytes not read"
        if self.damage:
            state = "DAMAGED: " + "; ".join(map(str, self.damage))
        return f"step {self.step:<8}  {counts:<48}  {state}"


@dataclass(frozen=True)
class Pruned:
    """What ``prune`` deleted, or would delete: steps, and names of folders that crashed saves left."""

    steps: tuple[int, ...]
    leftovers: tuple[str, ...]
    bytes: int
    verified: int | None


def inventory(folder: Path) -> list[Row]:
    """Every checkpoint, newest first, with the damage that can be seen without reading its data."""
    return [_row(path, glance) for path in step_folders(folder)]


def check(
    folder: Path, *, step: int | None = None, every: bool = False, progress: Progress | None = None
) -> Iterator[Row]:
    """Read checkpoints back: the newest, the one of ``step``, or every one. InputError when there is none."""
    paths = step_folders(folder)
    if step is not None:
        paths = [path for path in paths if step_of(path.name) == step]
    if not paths:
        steps = ", ".join(str(step_of(path.name)) for path in step_folders(folder)) or "none"
        what = "holds no checkpoints" if step is None else f"holds no checkpoint of step {step}"
        raise InputError([Problem(str(folder), what=what, instead=f"steps there: {steps}")])
    for path in paths if every else paths[:1]:
        yield _row(path, lambda checkpoint: verify(checkpoint, progress=progress), verified=True)


def prune(
    folder: Path, *, keep: int, keep_every: int | None = None, dry_run: bool = False, progress: Progress | None = None
) -> Pruned:
    """Delete all but the newest ``keep``, every ``keep_every``-th and the best, and what crashed saves left.

    First the newest is read back. AnswerNo when it is damaged, or when a live process writes to the folder.
    """
    store = LocalStore(folder)
    good, bad = store.look()
    if not good:
        raise AnswerNo(f"{folder} holds no good checkpoint", "nothing was deleted")
    newest = next(check(folder, step=max(good), progress=progress))
    if newest.damage:
        raise CheckpointDamaged(newest.folder, newest.damage)
    best = newest.checkpoint.manifest.best if newest.checkpoint else None
    doomed = surplus(good, bad, keep=keep, keep_every=keep_every, verified=newest.step, best=best)
    try:
        if not store.owned():
            raise AnswerNo(
                f"{folder} is being written to by a live run",
                "it deletes by itself (checkpoint.keep); cancel it first to prune by hand",
            )
        sizes = {path: _bytes(path) for path in store.leftovers()}
        left = list(sizes) if dry_run else store.clear_leftovers()  # before deleting, or it could put back what goes
        size = sum(_bytes(folder / f"step-{step:08d}") for step in doomed) + sum(sizes[path] for path in left)
        if not dry_run:
            for step in doomed:
                store.delete(step)
    finally:
        store.close()
    return Pruned(tuple(doomed), tuple(path.name for path in left), size, newest.step)


def _row(path: Path, look: Any, verified: bool = False) -> Row:  # Any: from Checkpoint to a list of Damage
    step = step_of(path.name)
    assert step is not None
    try:
        checkpoint = open_checkpoint(path)
    except ManifestError as error:
        return Row(path, step, None, (error.damage,))
    return Row(path, step, checkpoint, tuple(look(checkpoint)), verified)


def _bytes(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
