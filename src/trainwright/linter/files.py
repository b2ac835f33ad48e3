"""Open files: the only place of the linter that touches the disk to read what is linted.

Takes paths, gives SourceFiles. Only regular files of bounded size are read; whatever else a path leads to (a device,
a pipe, a loop of links, binary data, another encoding) becomes a problem of that file and never an exception.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from trainwright.linter.detect import language_of
from trainwright.linter.project import SourceFile
from trainwright.linter.readers.documents import read_text
from trainwright.linter.readers.yaml_reader import ReadProblem
from trainwright.linter.text import Span, Text

MAX_BYTES = 4 * 2**20
_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".terraform",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "site-packages",
        "venv",
    }
)
_FOREIGN_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def load_files(paths: Iterable[str | Path], excludes: Callable[[str], bool] | None = None) -> Iterator[SourceFile]:
    """Every file at ``paths``, each once; folders are searched, and each folder's files belong together. Files named
    one by one all belong together. ``excludes`` says what a search passes over; a path given by name is read anyway.
    What cannot be read becomes a problem of that file."""
    seen: set[str] = set()
    for given in paths:
        path = Path(given)
        explicit = not os.path.isdir(path)  # unlike Path.is_dir, false for every impossible path
        for found in [path] if explicit else _search(path, excludes):
            real = _identity(found)
            if real in seen:
                continue
            seen.add(real)
            loaded = _load(found, "" if explicit else str(found.parent), explicit=explicit)
            if loaded is not None:
                yield loaded


def _identity(path: Path) -> str:
    """What a file is called when every link is followed."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return str(path)


def load_neighbour(path: str) -> SourceFile | None:
    """A file that a linted one names; None unless it is there and can be read."""
    loaded = _load(Path(path), "", explicit=False)
    return loaded if loaded is not None and loaded.documents else None


def read_source(name: str, content: str, together: str = "") -> SourceFile:
    """A named text, read."""
    marked = content.startswith("\ufeff")
    carriage = "\r\n" in content
    content = content.removeprefix("\ufeff")
    text = Text(name, content.replace("\r\n", "\n") if carriage else content)
    documents, problems = read_text(text, name)
    return SourceFile(
        name, text, language_of(name, content), documents, problems, together, marked=marked, carriage=carriage
    )


def _search(folder: Path, excludes: Callable[[str], bool] | None) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        if excludes is not None:
            folders[:] = [name for name in folders if not excludes(os.path.join(root, name))]
            names = [name for name in names if not excludes(os.path.join(root, name))]
        for name in sorted(names):
            yield Path(root) / name


def _load(path: Path, together: str, *, explicit: bool) -> SourceFile | None:
    """One file; None for a file found in a folder that is nothing for this linter."""
    shown = str(path)
    expected = explicit or language_of(shown, "") != "none"
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            what = "a device, pipe or socket, not a file (pipe it in and lint -)"
            return _problem_file(shown, "missing", what, together) if expected else None
        if not expected and state.st_size > 64 * 1024:
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        what = getattr(error, "strerror", None) or str(error)
        return _problem_file(shown, "missing", what, together) if expected else None
    code, content = _decode(data)
    if code:
        return _problem_file(shown, code, content, together) if expected else None
    if not explicit and language_of(shown, content) == "none":
        return None
    loaded = read_source(shown, content, together)
    if not expected and loaded.problems:
        return None  # Its first line looked like a language that is read here, and the rest is something else.
    loaded.digest = hashlib.sha256(data).hexdigest()
    return loaded


def _decode(data: bytes) -> tuple[str, str]:
    """("", the text), or the code of a problem and what is wrong."""
    for mark, name in _FOREIGN_MARKS.items():
        if data.startswith(mark):
            return "binary", f"it is {name}, which neither shells nor schedulers read"
    if b"\0" in data[:8192]:
        return "binary", "it is not text"
    if len(data) > MAX_BYTES:
        return "size", f"it is larger than {MAX_BYTES // 2**20} MiB"
    content = data.decode("utf-8", "replace")
    if content.count("\ufffd") > len(content) // 20:
        return "binary", "it is not UTF-8 text"
    return "", content


def _problem_file(path: str, code: str, what: str, together: str) -> SourceFile:
    text = Text(path, "")
    return SourceFile(path, text, "none", [], [ReadProblem(code, Span(text, 0, 0), what)], together)
