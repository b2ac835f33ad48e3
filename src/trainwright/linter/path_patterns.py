"""Patterns over paths, as configuration writes them: ``examples/**``, ``*.md``, ``deploy/old``."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path


def matches(path: str, pattern: str, root: Path) -> bool:
    """Whether a file below ``root`` matches: by its whole path, by a folder above it, or, for a pattern without a
    slash, by its name. ``*`` crosses folders."""
    relative = Path(os.path.relpath(path, root)).as_posix()
    wanted = pattern.removeprefix("./").rstrip("/")
    if fnmatchcase(relative, wanted) or fnmatchcase(relative, f"{wanted}/*"):
        return True
    return "/" not in wanted and fnmatchcase(relative.rsplit("/", 1)[-1], wanted)
