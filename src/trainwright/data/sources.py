"""A source of the spec → the files it stands for, in a fixed order, with the format of each source.

Takes a path, folder or glob of this file system (addresses are staged before); gives names and sizes. It opens no
file of data.
"""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from trainwright import plain_json
from trainwright.errors import InputError, Problem, did_you_mean
from trainwright.spec.model import Source

Format: TypeAlias = Literal["text", "jsonl", "parquet", "dataset"]
SUFFIXES: dict[Format, tuple[str, ...]] = {
    "dataset": (".arrow",),
    "parquet": (".parquet",),
    "jsonl": (".jsonl", ".ndjson", ".jsonl.gz", ".json"),
    "text": (".txt", ".text", ".md", ".rst"),
}
_METADATA = {"dataset_info.json", "state.json", "dataset_dict.json", "dataset_infos.json"}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source. ``name`` is relative to the source."""

    name: str
    path: Path
    size: int


@dataclass(frozen=True)
class FoundSource:
    """What a source of the spec turned out to be."""

    source: Source
    where: str
    """Field of the spec, such as ``data.sources.0``."""
    format: Format
    files: tuple[SourceFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def find(source: Source, where: str, path: Path) -> FoundSource:
    """List the files of a source, which is at ``path`` here. Raises InputError when there are none."""
    problem = _Problems(source, where)
    try:
        return _find(source, where, path, problem)
    except OSError as error:  # a name that is too long, a folder that is not ours to read
        what = f"{error.filename or path} cannot be read: {error.strerror or error}"
        raise problem(what, "make it readable, or name another source") from None


def _find(source: Source, where: str, path: Path, problem: _Problems) -> FoundSource:
    if path.is_dir():
        path = _train_split(path, problem)
        everything = [SourceFile(name, path / name, size) for name, size in walk(path)]
    elif path.is_file():
        everything = [SourceFile(path.name, path, path.stat().st_size)]
    else:
        everything = _from_glob(str(path))
    if not everything:
        raise _nothing_there(path, problem)
    chosen = [file for file in everything if included(file.name, source.include, source.exclude)]
    if not chosen:
        raise problem(f"none of its {len(everything)} files fits include and exclude", "**/*.txt fits at any depth")
    form, files = _by_format(source, chosen, alone=path.is_file() or bool(source.include))
    if not files:
        kinds = sorted({Path(file.name).suffix or "no suffix" for file in chosen})
        instead = f"set include, such as ['**/*{kinds[0]}']; found {', '.join(kinds[:8])}"
        raise problem(f"has no {form} file ({', '.join(SUFFIXES[form])})", instead)
    return FoundSource(source, where, form, tuple(_within_limit(source, form, files)))


def walk(folder: Path) -> Iterator[tuple[str, int]]:
    """Names (relative, sorted) and sizes of all files below a folder; hidden ones are left out, links followed."""
    found: list[tuple[str, int]] = []
    seen: set[tuple[int, int]] = set()
    open_folders = [(str(folder), "")]
    while open_folders:
        here, name = open_folders.pop()
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in seen:  # a link that leads back up
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if _leads_nowhere(entry):
                    continue
                if entry.is_dir():
                    open_folders.append((entry.path, f"{name}{entry.name}/"))
                elif entry.is_file():
                    found.append((name + entry.name, entry.stat().st_size))
    yield from sorted(found)


def _leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """True for a link to nothing, or to itself."""
    if not entry.is_symlink():
        return False
    try:
        os.stat(entry.path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return True
        raise
    return False


def glob_pattern(text: str) -> re.Pattern[str]:
    """A glob as a regular expression: ``*`` within a name, ``**/`` over any folders; without ``/``, at any depth."""
    text = text if "/" in text else f"**/{text}"
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", text)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(_glob_part(part, known) for part in parts))


def _glob_part(part: str, known: dict[str, str]) -> str:
    if part.startswith("[") and part.endswith("]"):
        return f"[^{part[2:]}" if part.startswith("[!") else part
    return known.get(part, re.escape(part))


def included(name: str, include: Iterable[str], exclude: Iterable[str]) -> bool:
    """True for a name that fits some ``include`` (or there is none) and no ``exclude``."""
    wanted = [glob_pattern(text) for text in include]
    if wanted and not any(pattern.fullmatch(name) for pattern in wanted):
        return False
    return not any(glob_pattern(text).fullmatch(name) for text in exclude)


def _by_format(source: Source, files: list[SourceFile], alone: bool) -> tuple[Format, list[SourceFile]]:
    """The format, and the files of it. Files that the user picked by name are text unless their suffix says more."""
    if source.format != "auto":
        suffixes = SUFFIXES[source.format]
        return source.format, files if alone else [file for file in files if file.name.endswith(suffixes)]
    for form, suffixes in SUFFIXES.items():
        fitting = [f for f in files if f.name.endswith(suffixes) and os.path.basename(f.name) not in _METADATA]
        if fitting:
            return (form, files) if form == "text" and alone else (form, fitting)
    return "text", files if alone else []


def _within_limit(source: Source, form: Format, files: list[SourceFile]) -> list[SourceFile]:
    """Plain text is as long as its file, so what lies beyond the limit need not even be hashed."""
    if source.limit is None or form != "text":
        return files
    chosen, total = [], 0
    for file in files:
        chosen.append(file)
        total += file.size
        if total >= source.limit.bytes:
            break
    return chosen


def _train_split(folder: Path, problem: _Problems) -> Path:
    """A folder of several splits, as datasets writes it, stands for its train split."""
    record = folder / "dataset_dict.json"
    if not record.is_file():
        return folder
    try:
        splits = [str(name) for name in plain_json.loads(record.read_bytes())["splits"]]
    except (OSError, ValueError, KeyError, TypeError):
        splits = []
    if "train" in splits and (folder / "train").is_dir():
        return folder / "train"
    known = ", ".join(str(folder / name) for name in splits)
    raise problem("has no split named train", f"name one of {known}" if known else "name the folder of a split")


def _from_glob(text: str) -> list[SourceFile]:
    names = [name for name in sorted(glob.glob(text, recursive=True)) if os.path.isfile(name)]
    if not names:
        return []
    base = os.path.commonpath([os.path.dirname(name) for name in names])
    return [SourceFile(os.path.relpath(name, base), Path(name), os.path.getsize(name)) for name in names]


def _nothing_there(path: Path, problem: _Problems) -> InputError:
    if path.is_dir():
        return problem("holds no files", "put text or JSON lines there, or name another folder")
    if os.path.lexists(path):
        return problem("is neither a file nor a folder", "name a regular file; a pipe or a device has no end to hash")
    return problem("no such file or folder, and no file fits it as a glob", _nearest(path))


def _nearest(path: Path) -> str:
    parent = path.parent
    names = sorted(entry.name for entry in parent.iterdir()) if parent.is_dir() else []
    return did_you_mean(path.name, names) if 0 < len(names) <= 200 else "paths are relative to the spec"


class _Problems:
    """Makes InputErrors about one source."""

    def __init__(self, source: Source, where: str):
        self._source, self._where = source, where

    def __call__(self, what: str, instead: str = "") -> InputError:
        return InputError([Problem(self._source.path, field=self._where, what=what, instead=instead)])
