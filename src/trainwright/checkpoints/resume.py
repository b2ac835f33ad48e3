"""Finds the checkpoint to go on from: the newest that verifies. No torch, no collectives.

Takes a folder, gives a Checkpoint or None and reports each damaged one it had to pass over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from trainwright.checkpoints.failures import CheckpointDamaged
from trainwright.checkpoints.format import Checkpoint, Damage, ManifestError, open_checkpoint, step_folders
from trainwright.checkpoints.verify import Progress, verify

#: Called with the folder of a damaged checkpoint and all that is wrong with it.
Report = Callable[[Path, list[Damage]], None]

_log = logging.getLogger(__name__)


def warn(folder: Path, damage: list[Damage]) -> None:
    """Report a damaged checkpoint to the log."""
    _log.warning("%s is damaged and not used: %s", folder, "; ".join(map(str, damage)))


def candidates(folder: Path, report: Report = warn) -> Iterator[Checkpoint]:
    """Checkpoints with a believable manifest, newest first; the others are reported as they are met."""
    for path in step_folders(folder):
        try:
            yield open_checkpoint(path)
        except ManifestError as error:
            report(path, [error.damage])


def newest(
    folder: Path, *, threads: int | None = None, progress: Progress | None = None, report: Report = warn
) -> Checkpoint | None:
    """The newest checkpoint whose every byte is as it was saved, or None when there is none."""
    for checkpoint in candidates(folder, report):
        damage = verify(checkpoint, threads=threads, progress=progress)
        if not damage:
            return checkpoint
        report(checkpoint.folder, damage)
    return None


def at_step(folder: Path, step: int, *, threads: int | None = None, progress: Progress | None = None) -> Checkpoint:
    """The verified checkpoint of one step. CheckpointDamaged when it is missing or not whole."""
    path = folder / f"step-{step:08d}"
    try:
        checkpoint = open_checkpoint(path)
    except ManifestError as error:
        raise CheckpointDamaged(path, [error.damage]) from None
    damage = verify(checkpoint, threads=threads, progress=progress)
    if damage:
        raise CheckpointDamaged(path, damage)
    return checkpoint
