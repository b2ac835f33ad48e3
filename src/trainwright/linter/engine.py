"""Run rules over files: read, check, drop what is suppressed, sort.

Takes paths or named texts and options; gives Findings. Files are opened here and nowhere else. A rule that fails is
itself reported (TW009) and never stops the others.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.linter.detect import language_of
from trainwright.linter.finding import Finding, Severity
from trainwright.linter.project import Project, SourceFile, Versions
from trainwright.linter.readers.documents import read_text
from trainwright.linter.readers.yaml_reader import ReadProblem
from trainwright.linter.rule import Hit, Rule
from trainwright.linter.rules import RULES
from trainwright.linter.text import Span, Text

MAX_BYTES = 4 * 2**20
_SKIPPED_FOLDERS = frozenset(
    {
        ".git",
        ".hg",
        ".venv",
        "venv",
        "node_modules",
        "__pycache__",
        ".mypy_cache",
        ".ruff_cache",
        ".tox",
        "site-packages",
        ".terraform",
    }
)
_SUPPRESSION = re.compile(r"trainwright:\s*ignore(-file)?(?:\[([\w\s,]*)\])?")


@dataclass(frozen=True)
class Options:
    """``select`` and ``ignore`` are prefixes of rule ids; ``versions`` fixes components; ``strict`` lets a rule's own
    exception out (tests)."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False

    def wants(self, rule_id: str) -> bool:
        """Whether a rule is to be run."""
        return (not self.select or rule_id.startswith(tuple(self.select))) and not (
            self.ignore and rule_id.startswith(tuple(self.ignore))
        )


@cache
def load_rule(rule_id: str) -> Rule[Any]:
    """The rule of an id, imported on first use."""
    module, _, name = RULES[rule_id].partition(":")
    rule: Rule[Any] = getattr(importlib.import_module(module), name)()
    return rule


def lint_files(files: Sequence[SourceFile], options: Options) -> list[Finding]:
    """Findings of all wanted rules on files that were read."""
    project = Project(files, Versions(options.versions))
    findings = [
        finding
        for rule_id in RULES
        if options.wants(rule_id)
        for finding in _run(load_rule(rule_id), project, options)
    ]
    kept = _without_suppressed(findings, files)
    return sorted(set(kept), key=lambda f: (f.path, f.line, f.column, f.rule))


def lint_texts(texts: Mapping[str, str], options: Options | None = None) -> list[Finding]:
    """Findings on named texts that belong together (standard input, fixtures)."""
    return lint_files([read_source(name, content) for name, content in texts.items()], options or Options())


def lint_paths(paths: Iterable[str | Path], options: Options) -> list[Finding]:
    """Findings on files and folders."""
    return lint_files(list(load_files(paths)), options)


def read_source(name: str, content: str, together: str = "") -> SourceFile:
    """A named text, read."""
    text = Text(name, content.removeprefix("\ufeff"))
    documents, problems = read_text(text, name)
    return SourceFile(name, text, language_of(name, content), documents, problems, together)


def load_files(paths: Iterable[str | Path]) -> Iterator[SourceFile]:
    """Every file at ``paths``; folders are searched, and each folder's files belong together. Files named one by one
    all belong together. What cannot be read becomes a problem of that file."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for found in _search(path):
                loaded = _load(found, str(found.parent), explicit=False)
                if loaded is not None:
                    yield loaded
        else:
            loaded = _load(path, "", explicit=True)
            if loaded is not None:
                yield loaded


def _search(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            yield Path(root) / name


def _load(path: Path, together: str, *, explicit: bool) -> SourceFile | None:
    """One file; None for a file found in a folder that is nothing for this linter."""
    shown = str(path)
    try:
        size = path.stat().st_size
        if not explicit and (size > 64 * 2**20 or (language_of(shown, "") == "none" and size > 64 * 1024)):
            return None
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _problem_file(shown, "missing", error.strerror or str(error), together)
    head = data[:8192]
    if b"\0" in head:
        return _problem_file(shown, "binary", "it is not text", together) if explicit else None
    if len(data) > MAX_BYTES:
        if not explicit and language_of(shown, "") not in ("yaml", "shell"):
            return None
        return _problem_file(shown, "size", f"it is larger than {MAX_BYTES // 2**20} MiB", together)
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError:
        content = data.decode("utf-8", "replace")
        if content.count("\ufffd") > len(content) // 20:
            return _problem_file(shown, "binary", "it is not UTF-8 text", together) if explicit else None
    if not explicit and language_of(shown, content) == "none":
        return None
    return read_source(shown, content.replace("\r\n", "\n"), together)


def _problem_file(path: str, code: str, what: str, together: str) -> SourceFile:
    text = Text(path, "")
    return SourceFile(path, text, "none", [], [ReadProblem(code, Span(text, 0, 0), what)], together)


def _run(rule: Rule[Any], project: Project, options: Options) -> Iterator[Finding]:
    if not project.versions.holds(rule.since, rule.until):
        return
    try:
        for subject in rule.subjects(project):
            for hit in rule.check(subject, project):
                yield _finding(rule, hit)
    except Exception as error:
        if options.strict:
            raise
        path = project.files[0].path if project.files else "-"
        why = f"rule {rule.id} failed with {type(error).__name__}: {error}"
        yield Finding("TW009", "files", "note", path, 1, 1, 1, 1, "", why, "report it with the file that causes it")


def _finding(rule: Rule[Any], hit: Hit) -> Finding:
    line, column, end_line, end_column = hit.span.extent
    severity: Severity = hit.severity or rule.severity
    return Finding(rule.id, rule.category, severity, hit.span.path, line, column, end_line, end_column,
                   hit.span.quoted, hit.why, hit.instead, hit.fix)  # fmt: skip


def _without_suppressed(findings: list[Finding], files: Sequence[SourceFile]) -> list[Finding]:
    """Drop findings on lines that carry ``# trainwright: ignore[TW123] reason``, or stand below a line that is only
    such a comment, and those of files with ``ignore-file``."""
    by_path: dict[str, dict[int, list[str]]] = {}
    for file in files:
        content = file.text.shown or file.text.content
        if "trainwright:" not in content:
            continue
        lines: dict[int, list[str]] = {}
        for number, line in enumerate(content.splitlines(), 1):
            match = _SUPPRESSION.search(line) if "trainwright:" in line else None
            if match is None:
                continue
            prefixes = [part.strip() for part in (match[2] or "TW").split(",") if part.strip()]
            alone = line.lstrip().startswith(("#", "//", "<!--"))
            target = 0 if match[1] else number + 1 if alone else number
            lines.setdefault(target, []).extend(prefixes)
        by_path[file.path] = lines
    if not by_path:
        return findings
    return [f for f in findings if not f.rule.startswith(_suppressed(by_path.get(f.path, {}), f.line))]


def _suppressed(lines: Mapping[int, list[str]], line: int) -> tuple[str, ...]:
    """Prefixes of rule ids that are switched off on a line; a prefix of no rule when there are none."""
    return (*lines.get(line, ()), *lines.get(0, ()), "-")
