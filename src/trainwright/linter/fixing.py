"""Correct files by the edits that findings carry, keeping everything else as it is: comments, layout, line ends.

Takes read files and options; gives Changes, which ``show`` prints as a diff and ``write`` puts on disk. After each
round of edits the files are linted again, so that a correction which breaks its file is taken back and one that
uncovers another is followed.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trainwright.errors import InputError, Problem
from trainwright.linter.engine import Options, lint_files
from trainwright.linter.files import read_source
from trainwright.linter.finding import Edit, Finding
from trainwright.linter.project import SourceFile

_ROUNDS = 5
_BROKEN = ("TW001", "TW002", "TW004")
"""Rules about the form of a file: a correction that raises one of these is taken back."""


@dataclass(frozen=True)
class Change:
    """One file before and after. ``count`` is how many findings were corrected."""

    file: SourceFile
    before: str
    after: str
    count: int


def correct(files: Sequence[SourceFile], options: Options) -> tuple[list[Change], list[Finding]]:
    """What would change, and the findings that would be left. Nothing is written.

    Raises InputError when a file is no longer what was linted.
    """
    originals = _originals(files)
    current = list(files)
    counts: dict[str, int] = {}
    refused: set[str] = set()
    findings = lint_files(current, options)
    for _ in range(_ROUNDS):
        open_files = {f.path: f for f in current if f.path in originals and f.path not in refused}
        chosen = _choose(findings, open_files)
        if not chosen:
            break
        changed = [_corrected(f, chosen[f.path]) if f.path in chosen else f for f in current]
        again = lint_files(changed, options)
        worse = {path for path in chosen if _broken(again, path) > _broken(findings, path)}
        refused |= worse
        if worse:  # once more without those files
            continue
        current, findings = changed, again
        for path, found in chosen.items():
            counts[path] = counts.get(path, 0) + len(found)
    changes = [
        Change(old, originals[old.path], _with_form(old, _text(new)), counts[old.path])
        for old, new in zip(files, current, strict=True)
        if old.path in counts
    ]
    return changes, findings


def show(changes: Iterable[Change]) -> str:
    """The changes as one unified diff."""
    lines: list[str] = []
    for change in changes:
        before, after = (text.splitlines(keepends=True) for text in (change.before, change.after))
        for line in difflib.unified_diff(before, after, change.file.path, change.file.path):
            lines.append(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n")
    return "".join(lines)


def write(changes: Iterable[Change]) -> None:
    """Replace each file as a whole: a reader sees the old one or the new one. Links stay links, modes stay modes.

    A file that changed since it was linted is left alone; InputError then names all of them.
    """
    problems: list[Problem] = []
    for change in changes:
        path = Path(os.path.realpath(change.file.path))
        try:
            if hashlib.sha256(path.read_bytes()).hexdigest() != change.file.digest:
                problems.append(_moved_on(change.file.path))
            else:
                _replace(path, change.after.encode("utf-8"))
        except OSError as error:
            problems.append(Problem(change.file.path, what=f"cannot be written: {error.strerror}"))
    if problems:
        raise InputError(problems)


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap. Lines and columns are 1-based; lines end in a line feed."""
    starts = _line_starts(text)
    out = text
    for edit in sorted(edits, key=_order, reverse=True):
        start, end = _offsets(starts, edit)
        out = out[:start] + edit.text + out[end:]
    return out


def _originals(files: Sequence[SourceFile]) -> dict[str, str]:
    """The files that may be corrected, with their text as it is on disk (or came in)."""
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for file in files:
        if not file.text.content:
            continue
        if not file.digest:
            found[file.path] = _with_form(file, _text(file))
            continue
        try:
            data = Path(file.path).read_bytes()
        except OSError as error:
            problems.append(Problem(file.path, what=f"cannot be read again: {error.strerror}"))
            continue
        if hashlib.sha256(data).hexdigest() != file.digest:
            problems.append(_moved_on(file.path))
            continue
        with suppress(UnicodeDecodeError):  # bytes that are no text would not survive
            text = data.decode("utf-8")
            if _with_form(file, _text(file)) == text:  # mixed line ends would not survive either
                found[file.path] = text
    if problems:
        raise InputError(problems)
    return found


def _choose(findings: Iterable[Finding], files: Mapping[str, SourceFile]) -> dict[str, list[Finding]]:
    """Findings to correct in this round, by file: no edits overlap, and each finding is corrected whole or not."""
    chosen: dict[str, list[Finding]] = {}
    taken: dict[str, list[Edit]] = {}
    for finding in findings:
        if not finding.fix or finding.path not in files or not _is_literal(files[finding.path], finding.fix):
            continue
        before = taken.setdefault(finding.path, [])
        if not any(_overlap(edit, other) for edit in finding.fix for other in before):
            before.extend(finding.fix)
            chosen.setdefault(finding.path, []).append(finding)
    return chosen


def _overlap(one: Edit, other: Edit) -> bool:
    if _order(one) == _order(other):
        return True
    first, second = sorted((one, other), key=_order)
    return (second.line, second.column) < (first.end_line, first.end_column)


def _order(edit: Edit) -> tuple[int, int]:
    return edit.line, edit.column


def _is_literal(file: SourceFile, edits: Iterable[Edit]) -> bool:
    """Whether the author wrote what is to be replaced: the words of a template are not ours."""
    text, blanked = _text(file), file.text.content
    starts = _line_starts(text)
    places = [_offsets(starts, edit) for edit in edits]
    return all(text[start:end] == blanked[start:end] for start, end in places)


def _corrected(file: SourceFile, findings: Iterable[Finding]) -> SourceFile:
    edits = [edit for finding in findings for edit in finding.fix or ()]
    new = read_source(file.path, apply_edits(_text(file), edits), file.together)
    new.marked, new.carriage = file.marked, file.carriage
    return new


def _text(file: SourceFile) -> str:
    return file.text.content if file.text.shown is None else file.text.shown


def _with_form(file: SourceFile, text: str) -> str:
    """With the line ends and the byte order mark of the file."""
    ended = text.replace("\n", "\r\n") if file.carriage else text
    return "\ufeff" + ended if file.marked else ended


def _broken(findings: Iterable[Finding], path: str) -> int:
    return sum(finding.path == path and finding.rule in _BROKEN for finding in findings)


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    return starts


def _offsets(starts: Sequence[int], edit: Edit) -> tuple[int, int]:
    return starts[edit.line - 1] + edit.column - 1, starts[edit.end_line - 1] + edit.end_column - 1


def _moved_on(path: str) -> Problem:
    return Problem(path, what="changed since it was linted", instead="run again")


def _replace(path: Path, data: bytes) -> None:
    state = path.stat()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), state.st_mode & 0o7777)
            with suppress(OSError):  # only the owner of both may give a file away
                os.fchown(stream.fileno(), state.st_uid, state.st_gid)
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
