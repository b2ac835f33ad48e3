"""Whether what a spec names is on this machine, for runs that start here.

Takes a loaded spec, whose fields have positions; gives problems. It reads names only, and must not know how anything
is read or trained.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from trainwright.errors import Problem, did_you_mean
from trainwright.spec.load import Loaded
from trainwright.spec.paths import is_local
from trainwright.spec.yaml_reader import Path as FieldPath


def missing(loaded: Loaded) -> list[Problem]:
    """Every path of the spec that leads nowhere on this machine, at its line and column."""
    return [
        loaded.problem(field, f"{path} does not exist", _instead(path))
        for field, path in _paths(loaded)
        if is_local(path) and not _exists(path)
    ]


def _paths(loaded: Loaded) -> Iterator[tuple[FieldPath, str]]:
    spec = loaded.spec
    if spec.model is not None:
        yield ("model", "path"), spec.model.path
        if spec.model.tokenizer is not None:
            yield ("model", "tokenizer"), spec.model.tokenizer
    for number, source in enumerate(spec.data.sources if spec.data is not None else ()):
        yield ("data", "sources", number, "path"), source.path
    for number, task in enumerate(spec.evaluate.tasks):
        if task.path is not None:
            yield ("evaluate", "tasks", number, "path"), task.path


def _exists(path: str) -> bool:
    if os.path.lexists(path):
        return os.path.exists(path)
    return glob.has_magic(path) and next(glob.iglob(path, recursive=True), None) is not None


def _instead(path: str) -> str:
    """The name beside it that is meant, or the folder that is the first one missing."""
    place = Path(path)
    while not place.parent.is_dir() and place.parent != place:
        place = place.parent
    try:
        names = sorted(os.listdir(place.parent))
    except OSError:
        names = []
    near = did_you_mean(place.name, names) if names else ""
    if near.startswith("did you mean"):
        return near
    return f"paths are relative to the spec; there is no {place.name} in {place.parent}"
