"""What can go wrong with checkpoints, as the errors that reach a user."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterable
from pathlib import Path

from trainwright.checkpoints.format import Damage
from trainwright.errors import AnswerNo, SystemUnreachable, TrainwrightError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class CheckpointFailed(SystemUnreachable):
    """A save or load that did not succeed, the same on every rank. The checkpoints before it are untouched.

    ``causes`` holds the error of each rank that failed by itself.
    """

    def __init__(self, message: str, way_out: str = "", causes: Iterable[BaseException] = ()):
        self.causes = tuple(causes)
        super().__init__(message, way_out)


class CheckpointDamaged(AnswerNo):
    """A checkpoint whose bytes are not those that were saved. ``damage`` lists every file."""

    def __init__(self, folder: Path, damage: Iterable[Damage]):
        self.folder, self.damage = folder, tuple(damage)
        super().__init__(
            f"{folder} is damaged: {'; '.join(map(str, self.damage))}",
            "use an older checkpoint (`trainwright checkpoint ls` shows them) or restore this one from a copy",
        )


def describe(error: BaseException) -> str:
    """One line for an error, naming the file and the system's own word for an OSError."""
    if isinstance(error, TrainwrightError):
        return str(error)
    if isinstance(error, OSError) and error.errno is not None:
        name = errno.errorcode.get(error.errno, str(error.errno))
        where = f" ({Path(str(error.filename)).name})" if error.filename else ""
        return f"{error.strerror} [{name}]{where}"
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def is_full(error: BaseException) -> bool:
    """True when the disk, the quota or the file size limit is exhausted."""
    return isinstance(error, OSError) and error.errno in _FULL


def room_left(folder: Path) -> str:
    """A clause on the free space where a folder lives, empty when it cannot be asked."""
    try:
        return f"{shutil.disk_usage(folder).free / 2**20:.1f} MiB are free there"
    except OSError:
        return ""
