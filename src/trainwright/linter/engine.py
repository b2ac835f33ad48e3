"""Run rules over files: read, check, drop what is suppressed, sort.

Takes paths or named texts and options; gives Findings. A rule that fails is itself reported (TW009) and never stops
the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from trainwright.linter.files import load_files, load_neighbour, read_source
from trainwright.linter.finding import Finding, Severity
from trainwright.linter.kustomize import join_sets
from trainwright.linter.path_patterns import matches
from trainwright.linter.project import Project, SourceFile, Versions
from trainwright.linter.rule import Hit, ObjectRule, Rule
from trainwright.linter.rules import RULES
from trainwright.linter.subjects import has_subjects
from trainwright.linter.suppressions import Suppression, read_suppressions, split_suppressed

UNUSED_IGNORE = "TW006"
_PAGES = (".md", ".mdx", ".markdown")
_OF_WHOLE_OBJECTS = ("files", "operators")
"""Categories that judge an object as the API server would, as rules on single objects do. A page shows pieces (and
every option of a kind at once), and nobody submits the page."""
_OF_SKETCHES = ("TW146", "TW149", "TW202", "TW203", "TW406", "TW516")
"""Rules on what a sketch of a pod or of a command leaves out or writes loosely."""


@dataclass(frozen=True)
class Options:
    """``select`` and ``ignore`` are prefixes of rule ids; ``versions`` fixes components; ``per_path`` ignores
    prefixes in files that match a pattern below ``root``; ``strict`` lets a rule's own exception out (tests)."""

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    strict: bool = False
    per_path: Mapping[str, Sequence[str]] = field(default_factory=dict)
    root: Path = Path()

    def wants(self, rule_id: str) -> bool:
        """Whether a rule is to be run."""
        return (not self.select or rule_id.startswith(tuple(self.select))) and not (
            self.ignore and rule_id.startswith(tuple(self.ignore))
        )

    def ignored_in(self, path: str) -> tuple[str, ...]:
        """Prefixes of rule ids that are ignored in a file."""
        return tuple(
            prefix for pattern, ids in self.per_path.items() if matches(path, pattern, self.root) for prefix in ids
        )


@cache
def load_rule(rule_id: str) -> Rule[Any]:
    """The rule of an id, imported on first use."""
    module, _, name = RULES[rule_id].partition(":")
    rule: Rule[Any] = getattr(importlib.import_module(module), name)()
    return rule


def lint_files(files: Sequence[SourceFile], options: Options) -> list[Finding]:
    """Findings of all wanted rules on files that were read."""
    join_sets(files)
    project = Project(files, Versions(options.versions), load_neighbour)
    findings = [finding for rule_id in RULES if options.wants(rule_id) for finding in _run(rule_id, project, options)]
    suppressions = [suppression for file in (*files, *project.neighbours) for suppression in read_suppressions(file)]
    kept, unused = split_suppressed(findings, suppressions)
    if options.wants(UNUSED_IGNORE):
        kept += [_unused(suppression) for suppression in unused if _was_checked(suppression, project, options)]
    if options.per_path:
        ignored = {path: options.ignored_in(path) for path in {finding.path for finding in kept}}
        kept = [f for f in kept if not (ignored[f.path] and f.rule.startswith(ignored[f.path]))]
    return sorted(set(kept), key=lambda f: (f.path, f.line, f.column, f.rule))


def lint_texts(texts: Mapping[str, str], options: Options | None = None) -> list[Finding]:
    """Findings on named texts that belong together (standard input, fixtures)."""
    return lint_files([read_source(name, content) for name, content in texts.items()], options or Options())


def lint_paths(paths: Iterable[str | Path], options: Options) -> list[Finding]:
    """Findings on files and folders."""
    return lint_files(list(load_files(paths)), options)


def _run(rule_id: str, project: Project, options: Options) -> Iterator[Finding]:
    try:
        if not has_subjects(rule_id, project):
            return
        rule = load_rule(rule_id)
        if not project.versions.holds(rule.since, rule.until):
            return
        for subject in rule.subjects(project):
            for hit in rule.check(subject, project):
                yield _finding(rule, hit)
    except Exception as error:
        if options.strict:
            raise
        path = project.files[0].path if project.files else "-"
        why = f"rule {rule_id} failed with {type(error).__name__}: {error}"
        yield Finding("TW009", "files", "note", path, 1, 1, 1, 1, "", why, "report it with the file that causes it")


def _finding(rule: Rule[Any], hit: Hit) -> Finding:
    line, column, end_line, end_column = hit.span.extent
    severity: Severity = hit.severity or rule.severity
    whole = rule.category in _OF_WHOLE_OBJECTS or isinstance(rule, ObjectRule) or rule.id in _OF_SKETCHES
    if severity == "error" and whole and hit.span.path.endswith(_PAGES):
        severity = "warning"
    return Finding(rule.id, rule.category, severity, hit.span.path, line, column, end_line, end_column,
                   hit.span.quoted, hit.why, hit.instead, hit.fix)  # fmt: skip


def _unused(suppression: Suppression) -> Finding:
    rule = load_rule(UNUSED_IGNORE)
    names = "no rule" if suppression.prefixes == ("TW",) else f"not {', '.join(suppression.prefixes)}"
    why = f"nothing is found where this comment applies ({names}), so it would hide the next defect there"
    return _finding(rule, Hit(suppression.span, why, "delete the comment"))


def _was_checked(suppression: Suppression, project: Project, options: Options) -> bool:
    """Whether every rule that the comment names ran; otherwise it may be needed another time. A name that no rule has
    is told elsewhere."""
    named = [rule_id for rule_id in RULES if rule_id.startswith(suppression.prefixes)]
    return bool(named) and all(
        options.wants(rule_id) and project.versions.holds(load_rule(rule_id).since, load_rule(rule_id).until)
        for rule_id in named
    )
